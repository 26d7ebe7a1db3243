"""What gateways and workers report, read item by item: breakers, open rooms, outcomes. Ages, never times of day."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import Refused

MAX_ITEMS = 2000
MAX_AGE_SECONDS = 86_400.0
MAX_NUMBER = 2**31 - 1
WHOLE_INSTANCE = -1
STATES = ("closed", "open", "half_open")
OUTCOME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")

Item = Mapping[str, Any]
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class BreakerReport:
    """`group` is -1 for the whole instance; `age` (seconds) is how long it has been in `state`."""

    instance: str
    group: int
    state: str
    age: float
    reason: str


@dataclass(frozen=True, slots=True)
class OpenRoomsReport:
    """So many rooms were open `age` seconds ago, in that launch if the witness knows it."""

    instance: str
    group: int
    open_rooms: int
    age: float
    launch_token: str


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """`count` requests of that pair ended like that, `age` seconds ago."""

    prefill: str
    decode: str
    outcome: str
    count: int
    age: float


def read_breakers(items: Sequence[Item]) -> list[BreakerReport]:
    def one(item: Item) -> BreakerReport:
        state = item.get("state")
        if state not in STATES:
            raise ValueError(f"state must be one of {', '.join(STATES)}")
        return BreakerReport(_instance(item), _group(item), state, _age(item), _text(item, "reason", 500))

    return _each(items, one)


def read_open_rooms(items: Sequence[Item]) -> list[OpenRoomsReport]:
    def one(item: Item) -> OpenRoomsReport:
        if "age_seconds" not in item:
            raise ValueError("age_seconds is missing: a count without its age proves nothing")
        return OpenRoomsReport(
            _instance(item), _group(item), _number(item, "open_rooms"), _age(item), _text(item, "launch_token", 128)
        )

    return _each(items, one)


def read_outcomes(items: Sequence[Item]) -> list[OutcomeReport]:
    def one(item: Item) -> OutcomeReport:
        outcome = item.get("outcome")
        if not isinstance(outcome, str) or not OUTCOME.fullmatch(outcome):
            raise ValueError("outcome must be 1 to 40 lower-case letters, digits, dots, underscores and hyphens")
        pair = (_text(item, "prefill", 100), _text(item, "decode", 100))
        return OutcomeReport(*pair, outcome, _number(item, "count"), _age(item))

    return _each(items, one)


def _each(items: Sequence[Item], read: Callable[[Item], Read]) -> list[Read]:
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Sequence):
        raise Refused("a report is a list of items", code="malformed")
    if len(items) > MAX_ITEMS:
        raise Refused(f"a report has at most {MAX_ITEMS} items, not {len(items)}", code="too_large")
    found = []
    for place, item in enumerate(items):
        try:
            if not isinstance(item, Mapping):
                raise ValueError("it must be an object")
            found.append(read(item))
        except ValueError as why:
            raise Refused(f"item {place}: {why}", code="malformed") from None
    return found


def _instance(item: Item) -> str:
    name = _text(item, "instance", 100)
    if not name:
        raise ValueError("instance is missing")
    return name


def _group(item: Item) -> int:
    if item.get("dp") is None:
        return WHOLE_INSTANCE
    return _number(item, "dp")


def _number(item: Item, key: str) -> int:
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{key} must be a whole number from 0 to {MAX_NUMBER}")
    return value


def _age(item: Item) -> float:
    value = item.get("age_seconds", 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("age_seconds must be a number")
    if not 0 <= value <= MAX_AGE_SECONDS:
        raise ValueError(f"age_seconds must be from 0 to {MAX_AGE_SECONDS:g}")
    return float(value)


def _text(item: Item, key: str, longest: int) -> str:
    value = item.get(key) or ""
    if not isinstance(value, str) or len(value) > longest or "\x00" in value:
        raise ValueError(f"{key} must be text of at most {longest} characters")
    return value
