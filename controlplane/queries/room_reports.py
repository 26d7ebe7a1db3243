"""What was told of one room, as far as it is about its last use; and which ranks of a DP group are gone or do not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from controlplane.databases import TRAFFIC
from controlplane.domain.claims import Asked, Said, clock
from controlplane.models import RoomLookup, RoomReport

from . import fleet
from .events import CONTACTS
from .rows import InstanceRow
from .seats import SeatRow
from .wording import slot_name

MOST = 500
NAMED = 4


@dataclass(frozen=True, slots=True)
class Told:
    """`earlier`: reports about earlier uses of the number."""

    said: tuple[Said, ...]
    asked: tuple[Asked, ...]
    earlier: int


def told(room: int, names: Mapping[int, str], *, bound_at: float) -> Told:
    """A number may be used again: what is older than a room lives before the newest that is known is another request's."""
    rows = list(RoomReport.objects.using(TRAFFIC).filter(room=room).order_by("-id")[:MOST])
    looked = list(RoomLookup.objects.using(TRAFFIC).filter(room=room).order_by("-id")[:MOST])
    newest = max([bound_at, *(row.at for row in rows), *(row.asked_at for row in looked)])
    since = newest - settings.PDCP_ROOM_TTL_SECONDS
    said = tuple(
        Said(row.rung, row.result, row.source, row.instance, row.at, row.detail, row.took_seconds)
        for row in rows
        if row.at >= since
    )
    return Told(said, _asked([row for row in looked if row.asked_at >= since], names), len(rows) - len(said))


def _asked(rows: Sequence[RoomLookup], names: Mapping[int, str]) -> tuple[Asked, ...]:
    """One for each instance and host that asked; a later row of the same says that it was told meanwhile."""
    found: dict[tuple[int, str], Asked] = {}
    for row in sorted(rows, key=lambda row: row.pk):
        key = (row.instance_id, row.asked_by)
        before = found.get(key)
        answered = row.answered_at if before is None or before.answered_at is None else before.answered_at
        asked_at = row.asked_at if before is None else min(row.asked_at, before.asked_at)
        found[key] = Asked(names.get(row.instance_id, f"instance {row.instance_id}"), asked_at, row.asked_by, answered)
    return tuple(found.values())


def doubts(row: InstanceRow, dp: int, seats: Sequence[SeatRow], *, registered: int) -> tuple[str, ...]:
    """A sentence for each rank of the DP group that is gone or does not answer, with since when; NAMED at most."""
    found = [
        f"{slot_name(seat.slot, seat.topology)} at {seat.address} {CONTACTS[seat.contact]}; last seen at"
        f" {clock(seat.seen_at)}"
        for seat in seats
        if seat.contact not in ("up", "unprobed")
    ]
    current = row.current
    whole = current is not None and registered * current.topology.dp >= current.expected
    if not whole and not row.retired:
        found = [*_gone(row, dp), *found]
    return tuple(found[:NAMED])


def _gone(row: InstanceRow, dp: int) -> list[str]:
    """Of the launch that is current, or of the last one when nobody is left."""
    number = row.current.number if row.current is not None else None
    if number is None:
        last = fleet.launches(row.id, limit=1)
        if not last:
            return []
        number = last[0].number
    gone = [rank for rank in fleet.departed(row.id, [number], term=0) if rank.slot.dp == dp]
    return [
        f"{rank.name} at {rank.address} is gone since {clock(rank.left_at)}: {rank.left_reason}"
        for rank in gone[:NAMED]
        if rank.left_at is not None
    ]
