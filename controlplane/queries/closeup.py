"""All that the page of one instance stands on, as of one moment: a constant number of queries, whatever its size."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import explain, fleet, routable, workers
from .cells import LaunchCells, open_launches
from .routable import RoutableRow
from .rows import InstanceRow, LaunchRow, LeaderRow, RankRow
from .workers import Beating

LAUNCHES = 20


@dataclass(frozen=True, slots=True)
class CloseUp:
    """`seats`: whoever sits, or sat last, in an open launch. `launches`: the newest, ended ones too. `story`: in sentences.
    `gone`: whoever left an open launch, or the newest one, and was not replaced in it."""

    row: RoutableRow
    leader: LeaderRow
    revision: int
    seats: tuple[RankRow, ...]
    launches: tuple[LaunchRow, ...]
    story: tuple[str, ...]
    workers: Beating = field(default_factory=Beating)
    gone: tuple[RankRow, ...] = ()

    @property
    def instance(self) -> InstanceRow:
        return self.row.instance

    def cells(self, *, show: str = "verdict") -> tuple[LaunchCells, ...]:
        """Of the open launches, current first."""
        return tuple(LaunchCells(self.row, launch, self.seats, show=show) for launch in open_launches(self.instance))

    @property
    def registered_at(self) -> RankRow | None:
        """The rank that registered last in an open launch."""
        return max((rank for rank in self.seats if rank.left_at is None), key=lambda rank: rank.seen_at, default=None)


def look(name: str, *, now: float) -> CloseUp:
    """Raises Refused (not_found)."""
    with fleet.snapshot():
        row, found = routable.standing(name, now=now)
        instance, term = row.instance, found.leader.token
        seats = fleet.seats(instance.id, term=term)
        launches = fleet.launches(instance.id, limit=LAUNCHES)
        ended = [launch.number for launch in launches[:1] if launch.ended_at is not None]
        gone = [rank for rank in seats if rank.left_at is not None]
        gone += fleet.departed(instance.id, ended, term=term)
        beating = workers.beating(name)
    story = explain.explain(
        instance,
        [rank for rank in seats if rank.left_at is None],
        gone,
        launches[0] if launches else None,
        leader=found.leader,
        now=now,
    )
    if not instance.retired:
        story += workers.told(beating, now=now)
    return CloseUp(row, found.leader, found.revision, seats, launches, tuple(story), beating, tuple(gone))
