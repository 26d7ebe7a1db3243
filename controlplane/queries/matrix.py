"""A window of the matrix prefill × decode that fits a screen, one pair of it in full, and counts of all pairs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlplane.domain.compatibility import OUTLOOKS, Compatibility
from controlplane.domain.decodes import Decode
from controlplane.domain.disagreement import Prefill
from controlplane.domain.errors import Refused

from . import memo
from .compatibility import Compared, PairRow, known, of_role, prefill_of
from .routable import RoutableRow

ROWS, COLUMNS = 12, 8
MOST_KINDS = 5_000
"""Kinds of pairs that are compared for the counts; a fleet has a few, whatever its size."""

Kind = tuple[Prefill | Decode | None, bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """`prefill` and `decode`: the pair in full. `from_*`: the first name of each axis of the window. `posted`: a decode that
    describes itself in the question; it is the first column, or speaks for `decode`."""

    text: str = ""
    problems: bool = False
    from_prefill: str = ""
    from_decode: str = ""
    prefill: str = ""
    decode: str = ""
    posted: Decode | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of the window. `before` and `next` are where to go, None when there is nothing; `first` counts from 1."""

    rows: tuple[RoutableRow, ...]
    first: int
    total: int
    before: str | None
    next: str | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


@dataclass(frozen=True, slots=True)
class Chosen:
    """One pair with what both of its sides are, as far as anybody said."""

    pair: PairRow
    prefill: RoutableRow
    decode: RoutableRow | None
    facts: Prefill | None
    said: Decode


@dataclass(frozen=True, slots=True)
class Matrix:
    """`cells` stand by the rows of `prefills`, each in the order of the columns. `counts`: pairs by outlook, of all that
    there are; None when the fleet has too many kinds. `chosen`: what was asked for, else the worst that is shown."""

    prefills: Axis
    decodes: Axis
    described: bool
    cells: tuple[tuple[PairRow, ...], ...]
    counts: dict[str, int] | None
    usable: int | None
    pairs: int
    chosen: Chosen | None


def matrix(asked: Asked, *, now: float) -> Matrix:
    """Call it inside a snapshot. Raises Refused: not_found or conflict for the names of the pair that is asked for."""
    fleet = [row for row in memo.weighed(now=now).rows if not row.instance.retired]
    every_prefill, every_decode = of_role(fleet, "prefill", None), of_role(fleet, "decode", None)
    counted = _Counted(every_prefill, every_decode)
    left = [row for row in every_prefill if _fits(row, asked) and (not asked.problems or counted.troubled(row))]
    right = [row for row in every_decode if _fits(row, asked) and (not asked.problems or counted.troubled(row))]
    prefills = _axis(left, asked.from_prefill, asked.prefill, ROWS)
    nameless = asked.posted is not None and not asked.decode
    decodes = _axis(right, asked.from_decode, asked.decode, COLUMNS - nameless)
    compared, described = Compared(None), Compared(asked.posted)
    cells = tuple(
        (
            *([described.pair(row, None)] if nameless else []),
            *((described if other.name == asked.decode else compared).pair(row, other) for other in decodes.rows),
        )
        for row in prefills.rows
    )
    return Matrix(
        prefills,
        decodes,
        nameless,
        cells,
        counted.by_outlook,
        counted.usable,
        len(every_prefill) * len(every_decode),
        _chosen(asked, fleet, cells),
    )


def _fits(row: RoutableRow, asked: Asked) -> bool:
    return asked.text.lower() in row.name.lower() or row.name in (asked.prefill, asked.decode)


def _axis(rows: Sequence[RoutableRow], start: str, chosen: str, size: int) -> Axis:
    """From `start` on; without it the window that holds the chosen one, so that a link to a pair shows it."""
    names = [row.name for row in rows]
    first = bisect_left(names, start) if start else 0
    if not start and chosen in names:
        first = names.index(chosen) // size * size
    first = min(first, max(0, len(rows) - 1))
    shown = tuple(rows[first : first + size])
    return Axis(
        shown,
        first + 1 if shown else 0,
        len(rows),
        names[max(0, first - size)] if first else None,
        names[first + size] if first + size < len(rows) else None,
    )


def _chosen(asked: Asked, fleet: Sequence[RoutableRow], cells: Sequence[Sequence[PairRow]]) -> Chosen | None:
    if asked.prefill and (asked.decode or asked.posted is not None):
        prefill = of_role(fleet, "prefill", asked.prefill)[0]
        decode = of_role(fleet, "decode", asked.decode)[0] if asked.decode else None
        return _in_full(prefill, decode, asked.posted)
    if asked.decode and not asked.prefill:
        raise Refused("a pair has a prefill: name it as well", code="malformed")
    shown = [cell for row in cells for cell in row]
    if not shown:
        return None
    worst = min(shown, key=lambda cell: OUTLOOKS.index(cell.compatibility.outlook))
    there = {row.name: row for row in fleet}
    return _in_full(there[worst.prefill], there.get(worst.decode), asked.posted if not worst.decode else None)


def _in_full(prefill: RoutableRow, decode: RoutableRow | None, posted: Decode | None) -> Chosen:
    current = prefill.instance.current
    facts = prefill_of(current, prefill.instance) if current is not None else None
    return Chosen(Compared(posted).pair(prefill, decode), prefill, decode, facts, known(decode, posted)[1])


class _Counted:
    """Many instances are alike: kinds of pairs are compared, and multiplied by how many there are of each."""

    def __init__(self, prefills: Sequence[RoutableRow], decodes: Sequence[RoutableRow]) -> None:
        self._kinds = {row.name: _kind(row) for row in (*prefills, *decodes)}
        left, right = Counter(map(_kind, prefills)), Counter(map(_kind, decodes))
        self.by_outlook: dict[str, int] | None = None
        self.usable: int | None = None
        self._troubled: set[Kind] = set()
        if len(left) * len(right) > MOST_KINDS:
            return
        examples = {_kind(row): row for row in (*prefills, *decodes)}
        compared, found, usable = Compared(None), Counter[str](), 0
        for one, many, other, times in _pairs(left, right):
            pair = compared.pair(examples[one], examples[other])
            found[pair.compatibility.outlook] += many * times
            usable += many * times * pair.usable
            if _harms(pair.compatibility):
                self._troubled |= {one, other}
        self.by_outlook = {outlook: found[outlook] for outlook in OUTLOOKS}
        self.usable = usable

    def troubled(self, row: RoutableRow) -> bool:
        """Some pair of it cannot work, or may go wrong; everybody is when that was not counted."""
        return self.by_outlook is None or self._kinds[row.name] in self._troubled


def _pairs(left: Counter[Kind], right: Counter[Kind]) -> Iterator[tuple[Kind, int, Kind, int]]:
    return ((one, many, other, times) for one, many in left.items() for other, times in right.items())


def _harms(found: Compatibility) -> bool:
    return found.outlook in ("incompatible", "unproven", "costly")


def _kind(row: RoutableRow) -> Kind:
    current = row.instance.current
    if row.role == "prefill":
        return (prefill_of(current, row.instance) if current is not None else None), row.routable
    return known(row, None)[1], row.routable
