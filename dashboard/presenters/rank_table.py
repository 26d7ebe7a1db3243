"""The ranks of one launch as a table, a page at a time: what the grid says in colours, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controlplane.domain.cells import Cell
from controlplane.domain.errors import Refused
from controlplane.domain.routable import Fact
from controlplane.domain.topology import Slot
from controlplane.queries.cells import CellRow, LaunchCells
from controlplane.queries.rows import RankRow
from controlplane.queries.wording import slot_key, slot_name

PAGE = 100
SLOT = re.compile(r"dp(\d{1,5})\.cp(\d{1,5})\.tp(\d{1,5})\.pp(\d{1,5})")


def read_slot(text: str, name: str = "rank") -> Slot:
    """From a URL, as `--slot` takes it. Raises Refused (malformed).

    >>> read_slot("dp0.cp0.tp3.pp0")
    Slot(dp=0, cp=0, tp=3, pp=0)
    """
    found = SLOT.fullmatch(text)
    if found is None:
        raise Refused(f"{name} is a slot such as dp0.cp0.tp3.pp0, not {text[:60]!r}", code="malformed")
    return Slot(*map(int, found.groups()))


def read_cell(text: str) -> Cell | None:
    """The word that a table is narrowed to; None for all. Raises Refused (malformed)."""
    if not text:
        return None
    try:
        return Cell(text)
    except ValueError:
        raise Refused(
            f"state is a word such as routable, down or missing, not {text[:60]!r}", code="malformed"
        ) from None


@dataclass(frozen=True, slots=True)
class RankLine:
    name: str
    key: str
    row: CellRow
    rank: RankRow | None
    words: Mapping[Fact, Cell]

    @property
    def address(self) -> str:
        return self.rank.address if self.rank is not None else ""

    @property
    def here(self) -> bool:
        return self.rank is not None and self.rank.left_at is None


@dataclass(frozen=True, slots=True)
class RankTable:
    """`next`: the slot behind which the rest begins, blank at the end; `first`: this is where it starts."""

    cells: LaunchCells
    lines: tuple[RankLine, ...]
    first: bool
    next: str


def table(cells: LaunchCells, *, after: Slot | None, only: Cell | None, limit: int = PAGE) -> RankTable:
    found: list[RankLine] = []
    for slot in _behind(cells, after):
        row = cells[slot]
        if only is not None and row.cell is not only:
            continue
        if len(found) == limit:
            return RankTable(cells, tuple(found), after is None, found[-1].key)
        found.append(_line(cells, slot, row))
    return RankTable(cells, tuple(found), after is None, "")


def _behind(cells: LaunchCells, after: Slot | None) -> Iterator[Slot]:
    return (slot for slot in cells.launch.topology.slots() if after is None or slot > after)


def _line(cells: LaunchCells, slot: Slot, row: CellRow) -> RankLine:
    name = slot_name(slot, cells.launch.topology)
    return RankLine(name, slot_key(slot), row, cells.rank(slot), cells.facts(slot))
