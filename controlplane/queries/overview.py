"""The list of instances: filtered, sorted, a page at a time, with what stands in each row."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from controlplane.databases import READER
from controlplane.domain.errors import Refused

from . import hosts
from .attention import observed_of
from .routable import RoutableRow
from .strips import Marks, strips
from .totals import filling, ready

PAGE = 100
MOST_ADDRESSES = 4
ROLES = ("prefill", "decode", "seed")

# The last word of each witness, those of gateways and of workers apart: both would count a room twice. What a witness
# says of the whole instance and of its DP groups overlaps too: the larger one is believed.
OPEN_ROOMS = """
SELECT instance, kind, SUM(CASE WHEN whole > parts THEN whole ELSE parts END), MIN(oldest) FROM (
SELECT instance, kind, source, SUM(CASE WHEN "group" < 0 THEN open_rooms ELSE 0 END) AS whole,
SUM(CASE WHEN "group" < 0 THEN 0 ELSE open_rooms END) AS parts, MIN(taken_at) AS oldest
FROM controlplane_openrooms WHERE instance IN ({marks}) GROUP BY instance, kind, source) AS said
GROUP BY instance, kind ORDER BY instance, kind DESC"""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that must hold of an instance, or with `without` must not. `key` is one of KEYS."""

    key: str
    value: str
    without: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which instances, in which order (a key of ORDERS, or one with a minus before it), and where the page begins:
    behind `after` or before `before`, both as a page gave them."""

    terms: tuple[Term, ...] = ()
    sort: str = "name"
    after: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class OpenRoomsSaid:
    """How many requests its witnesses know to be open, and when the oldest of these words was true."""

    count: int
    taken_at: float
    by: str


@dataclass(frozen=True, slots=True)
class ListedRow:
    row: RoutableRow
    observed: str
    ready: int
    marks: tuple[Marks, ...] = ()
    rooms: OpenRoomsSaid | None = None


@dataclass(frozen=True, slots=True)
class ListPage:
    """`matching` of `total` instances fit; `first` is the place of the first row, from 1. `next` and `previous` lead on."""

    rows: tuple[ListedRow, ...]
    first: int
    matching: int
    total: int
    next: str
    previous: str


def listing(rows: Sequence[RoutableRow], wanted: Wanted, *, limit: int = PAGE) -> ListPage:
    """One page. Three queries, whatever its size. Call it inside a snapshot. Raises Refused (malformed)."""
    found = matching(rows, wanted)
    key = _order(wanted.sort)
    if wanted.sort.startswith("-"):
        found.reverse()
    places = [key(row) for row in found]
    start = _start(places, wanted, limit)
    shown = found[start : start + limit]
    marks = strips(shown)
    said = _open_rooms([row.name for row in shown])
    return ListPage(
        tuple(
            ListedRow(row, observed_of(row), ready(row), marks.get(row.instance.id, ()), said.get(row.name))
            for row in shown
        ),
        start + 1 if shown else 0,
        len(found),
        sum(_asks_for_retired(wanted) or not row.instance.retired for row in rows),
        _cursor(key(shown[-1])) if start + limit < len(found) else "",
        _cursor(key(shown[0])) if start > 0 and shown else "",
    )


def matching(rows: Sequence[RoutableRow], wanted: Wanted) -> list[RoutableRow]:
    """All that fit, in order. Retired ones only where somebody asks for them by that word. One query for each address
    that is sought, of which there may be four."""
    retired = _asks_for_retired(wanted)
    addresses = dict.fromkeys(
        term.value for term in wanted.terms if term.key == "text" and hosts.may_be_one(term.value)
    )
    at = {address: hosts.instances_at(address) for address in list(addresses)[:MOST_ADDRESSES]}
    found = [
        row
        for row in rows
        if (retired or not row.instance.retired)
        and all(
            (KEYS[term.key](row, term.value) or row.instance.id in at.get(term.value, ())) is not term.without
            for term in wanted.terms
        )
    ]
    return sorted(found, key=_order(wanted.sort))


def _asks_for_retired(wanted: Wanted) -> bool:
    return any(term.key in ("state", "desired") and term.value == "retired" for term in wanted.terms)


def _words(row: RoutableRow) -> list[str]:
    return [row.instance.intent, *(group.intent for group in row.instance.groups)]


def _launches(row: RoutableRow) -> list[str]:
    """Of a launch that fills another one may be current meanwhile, in whatever state that is."""
    said = ["filling"] if filling(row) else []
    return [*said, "candidate"] if row.instance.candidate is not None else said


def _text(row: RoutableRow, value: str) -> bool:
    one = row.instance
    own = (one.name, one.host_alias or "", one.engine_url, str(one.own_port or ""))
    return any(value in text.lower() for text in own)


def _starts(words: Collection[str], value: str) -> bool:
    return any(word.startswith(value.replace("-", "_")) for word in words)


KEYS: Mapping[str, Callable[[RoutableRow, str], bool]] = {
    "state": lambda row, value: _starts([*_words(row), observed_of(row)], value),
    "desired": lambda row, value: _starts(_words(row), value),
    "observed": lambda row, value: _starts([observed_of(row)], value),
    "role": lambda row, value: row.role.startswith(value),
    "routable": lambda row, value: row.routable is (value in "yes"),
    "launch": lambda row, value: _starts(_launches(row), value),
    "text": _text,
}
"""What can be asked for, and when it holds; a value is in small letters and may be the beginning of a word."""

Key = tuple[int, str]
ORDERS: Mapping[str, Callable[[RoutableRow], int]] = {
    "name": lambda row: 0,
    "role": lambda row: ROLES.index(row.role),
    "ready": lambda row: _readiness(row),
    "launch": lambda row: -round(row.instance.current.opened_at * 1000) if row.instance.current else 0,
}
"""What rows are sorted by before their name: one whole number each, so that a page can say where it ended."""


def _readiness(row: RoutableRow) -> int:
    """Per mille of its ranks; where none are expected, all or nothing."""
    expected = row.instance.expected
    if expected:
        return round(1000 * ready(row) / expected)
    return 1000 if row.routable or row.role == "seed" else 0


def _order(sort: str) -> Callable[[RoutableRow], Key]:
    by = ORDERS.get(sort.removeprefix("-"))
    if by is None:
        raise Refused(
            f"sort must be one of {', '.join(ORDERS)}, or one of them with a minus before it", code="malformed"
        )
    return lambda row: (by(row), row.name)


def _start(places: list[Key], wanted: Wanted, limit: int) -> int:
    """Where the page begins; the row that a cursor names may be gone by now."""
    if wanted.after and wanted.before:
        raise Refused("a page is after one row or before one, not both", code="malformed")
    if not wanted.after and not wanted.before:
        return 0
    at = _read_cursor(wanted.after or wanted.before)
    backwards = wanted.sort.startswith("-")
    ordered = places[::-1] if backwards else places
    if wanted.after:
        place = len(ordered) - bisect_left(ordered, at) if backwards else bisect_right(ordered, at)
        # Whoever was behind it is gone: the last page is shown rather than none.
        return place if place < len(places) else max(0, len(places) - limit)
    place = len(ordered) - bisect_right(ordered, at) if backwards else bisect_left(ordered, at)
    return max(0, place - limit)


def _cursor(key: Key) -> str:
    return f"{key[0]}.{key[1]}"


def _read_cursor(text: str) -> Key:
    found = re.fullmatch(r"(-?[0-9]{1,18})\.([^\x00]{1,100})", text)
    if found is None:
        raise Refused("after and before must be what an earlier page gave", code="malformed")
    return int(found[1]), found[2]


def _open_rooms(names: Sequence[str]) -> Mapping[str, OpenRoomsSaid]:
    wanted = list(names) or [""]
    with connections[READER].cursor() as cursor:
        cursor.execute(OPEN_ROOMS.format(marks=", ".join(["%s"] * len(wanted))), wanted)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    # In this order gateways come last and so have the word where both speak.
    return {name: OpenRoomsSaid(int(count), float(at), kind) for name, kind, count, at in rows}
