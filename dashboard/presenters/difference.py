"""Two states of a thing, as the rows in which they differ."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.topology import Slot

from .turns import short_slot

NOTHING = "–"
MOMENTS = frozenset({"at", "since", "first_at", "opened_at", "deadline_at", "expires"})
SINGULAR = {
    "launches": "launch",
    "rows": "",
    "claims": "claim",
    "drains": "drain of",
    "groups": "dp",
    "breakers": "breaker",
    "late_workers": "late worker",
    "engines": "engine",
    "instances": "",
    "gateways": "gateway",
    "routers": "router",
}
PARENTS_OF_SLOTS = ("rows", "claims")


@dataclass(frozen=True, slots=True)
class Difference:
    """`before`, `after`: None where there was nothing."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Differences:
    rows: tuple[Difference, ...]
    more: int
    """How many more there are than are shown."""


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, most: int = 40) -> Differences:
    """
    >>> differences({"intent": "enabled", "debt": None}, {"intent": "cordoned", "debt": None}).rows
    (Difference(what='intent', before='enabled', after='cordoned'),)
    """
    found = list(_differing(before or {}, after or {}, ()))
    return Differences(tuple(found[:most]), max(0, len(found) - most))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Difference]:
    keys = [*after, *(key for key in before if key not in after)]
    for key in keys:
        old, new = before.get(key), after.get(key)
        if old == new and (key in before) == (key in after):
            continue
        here = (*path, str(key))
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            yield from _differing(_mapping(old), _mapping(new), here)
            continue
        yield Difference(_name(here), _said(here, old, key in before), _said(here, new, key in after))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _said(path: tuple[str, ...], value: Any, there: bool) -> str | None:
    if not there:
        return None
    if value is None or value in ("", []):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if path[-1] in MOMENTS and isinstance(value, int | float):
        return f"{datetime.datetime.fromtimestamp(value, datetime.UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _name(path: tuple[str, ...]) -> str:
    """
    >>> _name(("launches", "8", "rows", "0.0.3.1", "contact")), _name(("groups", "1")), _name(("drains", "all", "progress"))
    ('launch 8 dp0 tp3 pp1 contact', 'dp 1', 'drain of all progress')
    """
    words = []
    for place, key in enumerate(path):
        if place and path[place - 1] in PARENTS_OF_SLOTS and key.count(".") == 3:
            words.append(short_slot(Slot(*map(int, key.split(".")))))
        else:
            words.append(SINGULAR.get(key, key.replace("_", " ")))
    return " ".join(filter(None, words))
