"""Which ranks of an instance a drain is about: one row a DP group, one cell a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.queries.routable import GroupVerdict, RoutableRow

from .states import state_of

MOST_GROUPS = 16
MOST_CELLS = 10
MOST_MICRO = 20


@dataclass(frozen=True, slots=True)
class Cell:
    tone: str
    icon: str
    void: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One DP group. `more`: ranks that are not drawn. `said`: the same in words."""

    name: str
    cells: tuple[Cell, ...]
    more: int
    said: str


@dataclass(frozen=True, slots=True)
class Reach:
    """`left_out`: DP groups that are not drawn. `micro`: cells without icons, since there are many."""

    lines: tuple[Line, ...]
    inside: int
    total: int
    launch: int | None
    left_out: int
    micro: bool

    @property
    def said(self) -> str:
        return "; ".join(line.said for line in self.lines)


def reach(row: RoutableRow, group: int | None, *, drained: bool) -> Reach | None:
    """None when no rank is registered, so that nobody knows which there are."""
    current = row.instance.current
    if current is None:
        return None
    size = current.topology.size // current.topology.dp
    micro = size > MOST_CELLS
    word = "drained" if drained else "draining"
    shown = _shown(row.groups, group)
    lines = tuple(_line(one, size, word if group in (None, one.group) else "", micro) for one in shown)
    inside = current.topology.size if group is None else size
    return Reach(lines, inside, current.topology.size, current.number, len(row.groups) - len(shown), micro)


def _shown(groups: Sequence[GroupVerdict], group: int | None) -> Sequence[GroupVerdict]:
    """The first of them, and the one in question in any case."""
    first = list(groups[:MOST_GROUPS])
    if group is not None and group >= MOST_GROUPS:
        first[-1:] = [one for one in groups if one.group == group]
    return first


def _line(one: GroupVerdict, size: int, wanted: str, micro: bool) -> Line:
    if wanted:
        state, word = state_of(wanted), wanted
    elif one.intent != "enabled":
        state, word = state_of(one.intent), one.intent
    elif one.verdict.routable:
        state, word = state_of("routable"), "routable"
    else:
        state, word = state_of("degraded"), "not routable"
    here = min(one.registered, size)
    cells = [Cell(state.tone, state.icon)] * here + [Cell("none", "miss", void=True)] * (size - here)
    most = MOST_MICRO if micro else MOST_CELLS
    said = f"dp{one.group} {word}, {here} of {size} ranks registered"
    return Line(f"dp{one.group}", tuple(cells[:most]), max(0, size - most), said)
