"""Where each rank of a launch stands in a grid: which axes make rows, which columns, and how much of it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations, product

from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology

AXES = Slot._fields
MOST_CELLS = 4096
MICRO_ABOVE = 512
"""Above this many cells they are so small that shapes stand for icons."""

TIGHT_ABOVE = 24
"""Above this many columns cells have an icon, but no ticks."""

ROWS = ("dp.cp", "dp", "dp.pp", "dp.tp", "pp.tp", "tp", "pp")
"""What is offered for the rows; any choice of axes is understood."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Axes by name, each once: the last of the columns changes from cell to cell."""

    rows: tuple[str, ...] = ("dp", "cp")
    columns: tuple[str, ...] = ("pp", "tp")

    @property
    def text(self) -> tuple[str, str]:
        """As URLs have it."""
        return ".".join(self.rows), ".".join(self.columns)


def read_layout(rows: str, columns: str) -> Layout:
    """From a URL. Columns that do not go with the rows are replaced by those that do. Raises Refused (malformed).

    >>> read_layout("", ""), read_layout("tp", "dp.cp.pp").columns, read_layout("pp.tp", "pp.tp").columns
    (Layout(rows=('dp', 'cp'), columns=('pp', 'tp')), ('dp', 'cp', 'pp'), ('dp', 'cp'))
    """
    if not rows and not columns:
        return Layout()
    chosen, wanted = _axes("rows", rows or "dp.cp"), _axes("cols", columns) if columns else ()
    rest = tuple(axis for axis in ("dp", "cp", "pp", "tp") if axis not in chosen)
    if not rest:
        raise Refused("rows takes some of the axes, not all: one at least makes the columns", code="malformed")
    return Layout(chosen, wanted if set(wanted) == set(rest) else rest)


def _axes(name: str, text: str) -> tuple[str, ...]:
    axes = tuple(text.split("."))
    if not set(axes) <= set(AXES) or len(set(axes)) < len(axes):
        raise Refused(f"{name} takes axes such as dp.cp, each of {', '.join(AXES)} at most once", code="malformed")
    return axes


def column_choices(layout: Layout) -> Sequence[str]:
    """
    >>> column_choices(Layout())
    ('pp.tp', 'tp.pp')
    """
    rest = [axis for axis in ("dp", "cp", "pp", "tp") if axis not in layout.rows]
    return tuple(".".join(order) for order in permutations(rest))


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a topology that is shown: a range of each axis, in the order of AXES."""

    topology: Topology
    ranges: tuple[range, range, range, range]

    @property
    def size(self) -> int:
        dp, cp, tp, pp = map(len, self.ranges)
        return dp * cp * tp * pp

    @property
    def whole(self) -> bool:
        return self.size == self.topology.size

    @property
    def told(self) -> str:
        """
        >>> window(Topology(64, 1, 128, 1), 40).told
        'dp32 to dp63 of 64'
        """
        said = [
            f"{axis}{part.start} to {axis}{part.stop - 1} of {size}"
            for axis, part, size in zip(AXES, self.ranges, self.topology.axes(), strict=True)
            if len(part) < size
        ]
        return ", ".join(said)

    @property
    def earlier(self) -> int | None:
        """The DP group that the window before this one begins with."""
        groups = self.ranges[0]
        return max(0, groups.start - len(groups)) if groups.start else None

    @property
    def later(self) -> int | None:
        groups = self.ranges[0]
        return groups.stop if groups.stop < self.topology.dp else None


def window(topology: Topology, first_dp: int = 0, *, most: int = MOST_CELLS) -> Window:
    """As many whole DP groups as fit, those that `first_dp` is one of. Of a group that is too large, its beginning.

    >>> window(Topology(2, 1, 8, 2)).whole, window(Topology(1, 1, 4096, 4)).told
    (True, 'tp0 to tp1023 of 4096')
    """
    dp, cp, tp, pp = topology.axes()
    room = most
    kept = {}
    for axis, size in (("pp", pp), ("cp", cp), ("tp", tp)):
        kept[axis] = min(size, room)
        room //= kept[axis]
    groups = min(dp, room)
    start = min(first_dp, dp - 1) // groups * groups
    ranges = (range(start, min(start + groups, dp)), range(kept["cp"]), range(kept["tp"]), range(kept["pp"]))
    return Window(topology, ranges)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the grid: its name, and its slots in groups that a gap parts."""

    name: str
    groups: tuple[tuple[Slot, ...], ...]


@dataclass(frozen=True, slots=True)
class Heads:
    """What stands above the columns: names of groups (blank when there is one axis only), and names within each."""

    groups: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]

    @property
    def count(self) -> int:
        return sum(map(len, self.columns))


def heads(layout: Layout, shown: Window) -> Heads:
    """
    >>> heads(Layout(), window(Topology(1, 1, 2, 2)))
    Heads(groups=('pp0', 'pp1'), columns=(('tp0', 'tp1'), ('tp0', 'tp1')))
    """
    groups = list(_grouped(layout, shown))
    names = tuple(_name(layout.columns[:-1], places[0], shown.topology) for places in groups)
    inner = layout.columns[-1]
    return Heads(names, tuple(tuple(f"{inner}{place[inner]}" for place in places) for places in groups))


def lines(layout: Layout, shown: Window) -> Iterator[Line]:
    groups = [[_numbers(place) for place in places] for places in _grouped(layout, shown)]
    for place in _places(layout.rows, shown):
        row = _numbers(place)
        cells = tuple(tuple(Slot(*map(sum, zip(row, column, strict=True))) for column in columns) for columns in groups)
        yield Line(_name(layout.rows, place, shown.topology), cells)


def _grouped(layout: Layout, shown: Window) -> Iterator[list[dict[str, int]]]:
    outer = layout.columns[:-1]
    for _, places in groupby(_places(layout.columns, shown), lambda place: [place[axis] for axis in outer]):
        yield list(places)


def _places(axes: Sequence[str], shown: Window) -> Iterator[dict[str, int]]:
    for numbers in product(*(shown.ranges[AXES.index(axis)] for axis in axes)):
        yield dict(zip(axes, numbers, strict=True))


def _numbers(place: dict[str, int]) -> tuple[int, ...]:
    return tuple(place.get(axis, 0) for axis in AXES)


def _name(axes: Sequence[str], place: dict[str, int], topology: Topology) -> str:
    """Without axes of size 1, unless nothing would be left to say."""
    sizes = dict(zip(AXES, topology.axes(), strict=True))
    told = [axis for axis in axes if sizes[axis] > 1]
    return " ".join(f"{axis}{place[axis]}" for axis in told or axes[:1])
