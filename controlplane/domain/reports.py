"""What gateways and workers report, read item by item: breakers, open rooms, outcomes. Ages, never times of day."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .claims import PASSED, RUNGS
from .errors import Refused

MAX_ITEMS = 2000
MAX_AGE_SECONDS = 86_400.0
MAX_NUMBER = 2**31 - 1
MAX_BATCH = 2**53
MAX_ROOM = 2**63 - 1
MAX_DETAIL = 200
WHOLE_INSTANCE = -1
STATES = ("closed", "open", "half_open")
OUTCOME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
RUN = re.compile(r"[A-Za-z0-9_-]{8,32}")

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


@dataclass(frozen=True, slots=True)
class EvidenceReport:
    """A room reached that rung, or failed there, `age` seconds ago; `instance` is its prefill. `took`: since its rung before."""

    room: int
    instance: str
    rung: str
    result: str
    age: float
    detail: str
    launch_token: str
    took: float | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Which of a run's batches it is: `run` is made up anew by each run of a process, `number` only grows. One that comes
    again, or late, is not counted twice."""

    run: str
    number: int


def read_batch(said: Mapping[str, Any] | None) -> Batch | None:
    """Raises Refused. None: whoever sends it does not number, so that nothing is known of it."""
    if said is None:
        return None
    run, number = said.get("run"), said.get("number")
    if not isinstance(run, str) or not RUN.fullmatch(run):
        raise Refused("batch.run must be 8 to 32 letters, digits, hyphens and underscores", code="malformed")
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_BATCH:
        raise Refused(f"batch.number must be a whole number from 1 to {MAX_BATCH}", code="malformed")
    return Batch(run, number)


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
        outcome = _outcome(item, "outcome")
        pair = (_text(item, "prefill", 100), _text(item, "decode", 100))
        return OutcomeReport(*pair, outcome, _number(item, "count"), _age(item))

    return _each(items, one)


def read_evidence(items: Sequence[Item]) -> list[EvidenceReport]:
    def one(item: Item) -> EvidenceReport:
        rung = item.get("rung")
        if rung not in RUNGS:
            raise ValueError(f"rung must be one of {', '.join(RUNGS)}")
        if "age_seconds" not in item:
            raise ValueError("age_seconds is missing: evidence without its age is of no time")
        took = None if item.get("took_seconds") is None else _age(item, "took_seconds")
        return EvidenceReport(
            _room(item), _instance(item), rung, _outcome(item, "result"), _age(item),
            _text(item, "detail", MAX_DETAIL), _text(item, "launch_token", 128), took,
        )  # fmt: skip

    return _each(items, one)


def worth_keeping(reports: Sequence[EvidenceReport], share: float) -> list[EvidenceReport]:
    """All failures, with all that came of the same room; of the rooms without one a share: the same rooms in every process."""
    failed = {report.room for report in reports if report.result != PASSED}
    return [report for report in reports if report.room in failed or is_sampled(report.room, share)]


def is_sampled(room: int, share: float) -> bool:
    """Whether a room belongs to the share that is kept: all of its rungs, or none.

    >>> is_sampled(7, 1.0), is_sampled(7, 0.0), sum(is_sampled(room, 0.25) for room in range(10_000)) // 100
    (True, False, 25)
    """
    return (room * 0x9E3779B97F4A7C15 & 2**64 - 1) >> 32 < share * 2**32


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


def _room(item: Item) -> int:
    value = item.get("room")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_ROOM:
        raise ValueError("room must be a whole number from 0 to 2^63-1, as text or as a number")
    return value


def _outcome(item: Item, key: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not OUTCOME.fullmatch(value):
        raise ValueError(f"{key} must be 1 to 40 lower-case letters, digits, dots, underscores and hyphens")
    return value


def _age(item: Item, key: str = "age_seconds") -> float:
    value = item.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{key} must be a number")
    if not 0 <= value <= MAX_AGE_SECONDS:
        raise ValueError(f"{key} must be from 0 to {MAX_AGE_SECONDS:g}")
    return float(value)


def _text(item: Item, key: str, longest: int) -> str:
    value = item.get(key) or ""
    if not isinstance(value, str) or len(value) > longest or "\x00" in value:
        raise ValueError(f"{key} must be text of at most {longest} characters")
    return value
