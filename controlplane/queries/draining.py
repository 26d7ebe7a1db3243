"""One drain that is under way, in detail: who has stopped choosing it, who has proven it empty, which rooms still live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Q

from controlplane.databases import READER
from controlplane.domain.admission import look
from controlplane.domain.drain import ranks_of
from controlplane.domain.obstacles import GATEWAY, ROUTER, Obstacle, obstacles
from controlplane.domain.witness import READINGS, Statement, statements
from controlplane.ledger.tail import EventRow
from controlplane.models import Event

from . import history, journal
from .drains import DrainRow, ReadingRow
from .journal import LivingRow
from .witnesses import Case, as_last_seen

MOST_RANKS = 32
MOST_ROOMS = 12
MOST_EVENTS = 50
KINDS = ("intent.changed", "drain.started", "drain.progressed", "drain.ended")


@dataclass(frozen=True, slots=True)
class SelectorRow:
    """A gateway or a router, and whether it has stopped choosing what is drained. `against`: why nobody can say so.

    `acknowledged` is None for a router, and for a gateway that acknowledged nothing of this ledger. `open_rooms` is what
    a gateway last said to be open there, as of `open_at`; None when it said nothing.
    """

    kind: str
    name: str
    against: Obstacle | None
    acknowledged: int | None
    seen_at: float | None
    open_rooms: int | None = None
    open_at: float | None = None

    @property
    def stopped(self) -> bool:
        return self.against is None


@dataclass(frozen=True, slots=True)
class WitnessRow:
    """What a witness says of one DP rank. `zeros`: how many times in a row it said zero after everybody had stopped."""

    dp: int
    who: str
    word: str
    zeros: int
    reading: ReadingRow | None

    @property
    def proven(self) -> bool:
        return self.zeros >= READINGS


@dataclass(frozen=True, slots=True)
class Detail:
    """`ranks`: how many DP ranks must be proven empty; `witnesses` speak of the first of them."""

    selectors: tuple[SelectorRow, ...] = ()
    witnesses: tuple[WitnessRow, ...] = ()
    ranks: int = 0
    living: tuple[LivingRow, ...] = ()


def detail(row: DrainRow, *, now: float) -> Detail:
    """Of a drain that is under way, else nothing. Call it inside a snapshot."""
    case = as_last_seen(row.id, now=now)
    if case is None:
        return Detail()
    ranks, _ = ranks_of(case.state, case.seen, case.state.memory)
    said = statements(ranks[:MOST_RANKS], case.seen.readings, case.seen.watch, now=now)
    lives = row.rooms.until > now or row.rooms.late_until > now
    return Detail(
        tuple(_selectors(case, now)),
        tuple(_witness(one, case) for one in said),
        len(ranks),
        journal.living(case.row.instance_id, row.group, mark=case.row.rooms_mark, now=now, limit=MOST_ROOMS + 1)
        if lives
        else (),
    )


def story(row: DrainRow) -> tuple[EventRow, ...]:
    """What the ledger tells of this drain, the newest first, MOST_EVENTS at most."""
    # The intent was changed in the same transaction, one revision before it was asked for.
    events = Event.objects.using(READER).filter(
        Q(data__contains=f'"drain":{row.id},') | Q(data__contains=f'"drain":{row.id}}}'),
        instance=row.instance,
        kind__in=KINDS,
        revision__gte=row.cordon_revision - 1,
    )
    return tuple(map(history.row_of, events.order_by("-revision")[:MOST_EVENTS]))


def _selectors(case: Case, now: float) -> Iterator[SelectorRow]:
    cordon, chosen = case.state.cordon, case.seen.selectors
    counted = _open_rooms(case)
    for gateway in chosen.gateways:
        said = look(cordon, replace(chosen, gateways=(gateway,), routers=()), now=now)
        against = next(iter(obstacles({**said.admitting, **said.unsure})), None)
        same = gateway.ledger_id == chosen.ledger_id
        open_rooms, at = counted.get(gateway.name, (None, None))
        yield SelectorRow(
            GATEWAY, gateway.name, against, gateway.revision if same else None, gateway.seen_at, open_rooms, at
        )
    for router in chosen.routers:
        said = look(cordon, replace(chosen, gateways=(), routers=(router,)), now=now)
        against = next(iter(obstacles({**said.admitting, **said.unsure})), None)
        yield SelectorRow(ROUTER, router.name, against, None, router.checked_at)


def _open_rooms(case: Case) -> dict[str, tuple[int, float]]:
    """By gateway: how many rooms it has open in what is drained, and when the oldest of these counts was true."""
    found: dict[str, tuple[int, float]] = {}
    groups: dict[str, tuple[int, float]] = {}
    for reading in case.seen.readings:
        if reading.kind != GATEWAY or reading.open is None:
            continue
        if reading.dp == case.state.cordon.group:
            found[reading.source] = (reading.open, reading.taken_at)
        if reading.dp is not None and case.state.cordon.group is None:
            count, at = groups.get(reading.source, (0, reading.taken_at))
            groups[reading.source] = (count + reading.open, min(at, reading.taken_at))
    # What it says of the whole instance and of its groups overlaps: the larger one is believed.
    return {name: max(both) for name in {**found, **groups} if (both := _known(found.get(name), groups.get(name)))}


def _known(*said: tuple[int, float] | None) -> list[tuple[int, float]]:
    return [one for one in said if one is not None]


def _witness(said: Statement, case: Case) -> WitnessRow:
    zero = case.state.memory.zeros.get(said.key)
    reading = said.reading
    return WitnessRow(
        said.dp,
        said.name,
        said.word,
        zero.count if zero is not None and said.word == "zero" else 0,
        ReadingRow(*said.who, reading.dp, reading.taken_at, reading.open, reading.counts) if reading else None,
    )
