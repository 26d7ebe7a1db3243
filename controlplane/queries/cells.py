"""The slots of a launch as a grid shows them: one word for each, which facts say no, and who else claims it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from controlplane.domain import cells as domain
from controlplane.domain.cells import EMPTY, Around, Cell, Seat
from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.domain.routable import Fact
from controlplane.domain.topology import Slot

from . import fleet, routable
from .routable import RoutableRow
from .rows import InstanceRow, LaunchRow, RankRow

MOST_SLOTS = 512
"""Slots that may be asked for one by one; whoever wants more asks for all of them."""


@dataclass(frozen=True, slots=True)
class CellRow:
    """What a slot comes to. `shut`: gateways whose breaker is not closed; `claims`: addresses that want the slot."""

    cell: Cell
    against: frozenset[Fact] = frozenset()
    shut: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


class LaunchCells:
    """One launch and whoever sits, or sat, in it. Most slots are alike, so each kind is weighed once."""

    def __init__(self, row: RoutableRow, launch: LaunchRow, ranks: Iterable[RankRow], *, show: str = "verdict") -> None:
        self.launch = launch
        self._row = row
        self._show = domain.SHOWS[show]
        self._ranks: Mapping[Slot, RankRow] = {rank.slot: rank for rank in ranks if rank.launch == launch.number}
        self._claims = {claim.slot: claim.address for claim in launch.claims}
        self._around: dict[int, tuple[Around, tuple[str, ...]]] = {}
        self._weighed: dict[tuple[int, Seat], CellRow] = {}

    def __getitem__(self, slot: Slot) -> CellRow:
        rank = self._ranks.get(slot)
        key = slot.dp, seat(rank)
        found = self._weighed.get(key)
        if found is None:
            found = self._weighed[key] = self._weigh(*key)
        if slot in self._claims:
            return CellRow(found.cell, found.against, found.shut, (self._claims[slot],))
        return found

    def rank(self, slot: Slot) -> RankRow | None:
        return self._ranks.get(slot)

    @property
    def ranks(self) -> Iterable[RankRow]:
        """Whoever sits, or sat last, in one of its slots, in slot order."""
        return self._ranks.values()

    def facts(self, slot: Slot) -> Mapping[Fact, Cell]:
        """One word for each of the four facts."""
        held, around = seat(self._ranks.get(slot)), self._standing(slot.dp)[0]
        return {fact: domain.SHOWS[fact](held, around) for fact in Fact}

    def counts(self) -> Counter[Cell]:
        """How many slots of the whole launch come to each word."""
        found = Counter(self[slot].cell for slot in self._ranks)
        taken = Counter(slot.dp for slot in self._ranks)
        size = self.launch.topology.size // self.launch.topology.dp
        for dp in range(self.launch.topology.dp):
            found[self._weigh(dp, EMPTY).cell] += size - taken[dp]
        return +found

    @property
    def present(self) -> Set[Slot]:
        """Slots in which somebody counts."""
        return {slot for slot, rank in self._ranks.items() if rank.left_at is None}

    def _weigh(self, dp: int, seat: Seat) -> CellRow:
        around, shut = self._standing(dp)
        return CellRow(self._show(seat, around), domain.against(seat, around), shut)

    def _standing(self, dp: int) -> tuple[Around, tuple[str, ...]]:
        if dp not in self._around:
            instance = self._row.instance
            own = [b for b in instance.open_breakers if b.group in (None, dp)]
            verdict = next((group.verdict for group in self._row.groups if group.group == dp), None)
            everywhere = verdict is not None and any(r.fact is Fact.BREAKER and r.blocks for r in verdict.reasons)
            states = {b.state for b in own}
            around = Around(
                candidate=self.launch.state == "candidate",
                complete=self.launch.completed_at is not None,
                routable=verdict is not None and verdict.routable,
                intent=_wanted(instance, dp),
                breaker=Cell.OPEN if everywhere else _worst(states),
            )
            self._around[dp] = around, tuple(b.gateway for b in own)
        return self._around[dp]


def seat(rank: RankRow | None) -> Seat:
    if rank is None:
        return EMPTY
    return Seat(rank.left_at is None, Contact(rank.contact), "unprobed" not in rank.flags, rank.verified)


def of_instance(
    name: str, *, now: float, slots: tuple[Slot, ...] = (), show: str = "verdict"
) -> tuple[RoutableRow, tuple[LaunchCells, ...]]:
    """The open launches of an instance, current first; of `slots` alone, unless none are given.

    Raises Refused: not_found, or malformed when more slots are named than MOST_SLOTS.
    """
    if len(slots) > MOST_SLOTS:
        raise Refused(
            f"{len(slots)} slots are named, and at most {MOST_SLOTS} can be; name none for all", code="malformed"
        )
    with fleet.snapshot():
        row, found = routable.standing(name, now=now)
        ranks = fleet.seats(row.instance.id, term=found.leader.token, slots=slots)
    return row, tuple(LaunchCells(row, launch, ranks, show=show) for launch in open_launches(row.instance))


def open_launches(instance: InstanceRow) -> tuple[LaunchRow, ...]:
    return tuple(launch for launch in (instance.current, instance.candidate) if launch is not None)


def _wanted(instance: InstanceRow, dp: int) -> str:
    """The intent that holds, and `drained` once nothing is left there."""
    intent = instance.intent_of(dp)
    drain = instance.drain_of(None) or instance.drain_of(dp)
    return Cell.DRAINED if intent == "draining" and drain is not None and drain.progress == "drained" else intent


def _worst(states: set[str]) -> Cell:
    if "open" in states:
        return Cell.OPEN_SOMEWHERE
    return Cell.HALF_OPEN if "half_open" in states else Cell.CLOSED
