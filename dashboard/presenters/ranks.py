"""The ranks of one launch as a panel: its grid, how many slots come to which word, and who is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.domain.attention_seen import STALLED_SECONDS
from controlplane.domain.cells import Cell
from controlplane.domain.topology import Slot
from controlplane.queries.cells import CellRow, LaunchCells
from controlplane.queries.rows import LaunchRow
from controlplane.queries.wording import slot_key

from .cells import CellView, view
from .gaps import gaps
from .grid import MICRO_ABOVE, TIGHT_ABOVE, Heads, Layout, Line, Window, heads, lines, window
from .instance_query import Asked

MOST_COPIED = 200
"""Missing slots that the copy button takes at most."""


@dataclass(frozen=True, slots=True)
class Grid:
    """`drawn`: the cells are part of the answer; a page that has them already gets only the frame around them."""

    cells: LaunchCells
    layout: Layout
    window: Window
    show: str
    selected: Slot | None = None
    drawn: bool = True
    _views: dict[CellRow, CellView] = field(default_factory=dict)

    @property
    def launch(self) -> LaunchRow:
        return self.cells.launch

    @property
    def size(self) -> str:
        if self.window.size > MICRO_ABOVE:
            return "micro"
        return "tight" if self.heads.count > TIGHT_ABOVE else "full"

    @property
    def heads(self) -> Heads:
        return heads(self.layout, self.window)

    @property
    def stop(self) -> Slot:
        """The one cell that Tab leads to."""
        first = Slot(*(part.start for part in self.window.ranges))
        inside = self.selected is not None and all(
            place in part for place, part in zip(self.selected, self.window.ranges, strict=True)
        )
        return self.selected if inside and self.selected is not None else first

    @property
    def shape(self) -> str:
        """While it is the same, the cells are those of the page, and are kept up to date one by one."""
        rows, columns = self.layout.text
        return f"{self.launch.number} {self.launch.topology} {self.window.told} {rows} {columns} {self.show}"

    @property
    def label(self) -> str:
        rows, columns = (" and ".join(axes) for axes in (self.layout.rows, self.layout.columns))
        return f"Launch {self.launch.number}, {self.launch.state}, ranks by {rows} and {columns}"

    def lines(self) -> Iterator[Line]:
        return lines(self.layout, self.window)

    def view(self, slot: Slot) -> CellView:
        row = self.cells[slot]
        found = self._views.get(row)
        if found is None:
            found = self._views[row] = view(row)
        return found


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of the legend: the look of a cell, its word, how many slots of both launches have it, and who they are."""

    cell: Cell
    view: CellView
    count: int
    url: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One launch: how far it got, its grid, and who is missing. `idle`: seconds since its newest rank came."""

    grid: Grid
    counts: Mapping[Cell, int]
    newest_at: float | None
    idle: float
    earlier_url: str
    later_url: str
    bare: bool = False
    """The grid before it has the same columns, so these need no names of their own to be seen."""

    @property
    def launch(self) -> LaunchRow:
        return self.grid.launch

    @property
    def routable(self) -> int:
        return self.counts.get(Cell.ROUTABLE, 0)

    @property
    def coming(self) -> bool:
        """It has never been complete, so what matters is how far it got."""
        return self.launch.state == "candidate" or self.launch.completed_at is None

    @property
    def stalled(self) -> bool:
        return self.idle > STALLED_SECONDS

    @property
    def missing(self) -> int:
        return self.launch.expected - self.launch.registered

    @property
    def gaps(self) -> str:
        return gaps(self.launch.topology, self.grid.cells.present)

    @property
    def copied(self) -> str:
        """The missing slots, one a line, as `--slot` takes them."""
        present = self.grid.cells.present
        found = [slot_key(slot) for slot in self.launch.topology.missing(dict.fromkeys(present), MOST_COPIED)]
        more = [f"and {self.missing - len(found)} more"] if self.missing > len(found) else []
        return "\n".join([*found, *more])


def panels(launches: Sequence[LaunchCells], asked: Asked, *, drawn: bool, now: float) -> list[Panel]:
    """One for each launch; the rank that is chosen is chosen in the launch that is asked for, else in the first."""
    chosen = next((each for each in launches if each.launch.number == asked.launch), launches[0] if launches else None)
    found = [_panel(each, asked, asked.slot if each is chosen else None, drawn=drawn, now=now) for each in launches]
    return [replace(panel, bare=place > 0 and _alike(found[place - 1], panel)) for place, panel in enumerate(found)]


def _alike(one: Panel, other: Panel) -> bool:
    return one.grid.size == other.grid.size and one.grid.heads == other.grid.heads


def _panel(cells: LaunchCells, asked: Asked, selected: Slot | None, *, drawn: bool, now: float) -> Panel:
    shown = window(cells.launch.topology, asked.first_dp)
    newest = max((rank.first_at for rank in cells.ranks if rank.left_at is None), default=None)
    return Panel(
        Grid(cells, asked.layout, shown, asked.show, selected, drawn),
        cells.counts(),
        newest,
        now - newest if newest is not None else 0.0,
        asked.url(dp=shown.earlier) if shown.earlier is not None else "",
        asked.url(dp=shown.later) if shown.later is not None else "",
    )


ORDER = (
    *(Cell.ROUTABLE, Cell.UP, Cell.REGISTERED, Cell.ENABLED, Cell.CLOSED),
    *(Cell.SILENT, Cell.UNVERIFIED, Cell.UNREACHED, Cell.UNPROBED, Cell.HALF_OPEN, Cell.OPEN_SOMEWHERE),
    *(Cell.STRANGER, Cell.REFUSED, Cell.DOWN, Cell.OPEN),
    *(Cell.CORDONED, Cell.DRAINING, Cell.DRAINED, Cell.RETIRED),
    *(Cell.FILLING, Cell.CANDIDATE, Cell.LEFT, Cell.MISSING),
)
"""Words of the legend, each at the same place whatever the numbers are."""


def legend(launches: Sequence[LaunchCells], asked: Asked) -> list[Mark]:
    """Each word leads to the table of those that have it, in the first launch where somebody does."""
    counts = {each.launch.number: each.counts() for each in launches}
    found = []
    for cell in ORDER:
        own = [number for number, count in counts.items() if count[cell]]
        if own:
            total = sum(count[cell] for count in counts.values())
            url = asked.url(view="table", state=cell, after="", launch=own[0])
            found.append(Mark(cell, view(CellRow(cell)), total, url))
    return found
