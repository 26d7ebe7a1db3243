"""Where a room is bound, according to the journal: which instance, which DP rank, until when, and who else claimed it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Max

from controlplane.databases import READER, TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.models import Instance, RoomBinding, RoomCollision

MAX_ROOM = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CollisionRow:
    """A binding that displaced another while that one was alive."""

    before: int
    after: int
    at: float


@dataclass(frozen=True, slots=True)
class RoomRow:
    """The last binding of a room in one instance; `live` says whether the wire still answers with it."""

    instance: str
    room: int
    dp: int
    expires_at: float
    live: bool
    collisions: tuple[CollisionRow, ...] = ()


def find_room(room: int, *, now: float) -> tuple[RoomRow, ...]:
    """Living bindings first. The journal has no index by room, so this reads all of it: for people, not for the wire."""
    if not 0 <= room <= MAX_ROOM:
        raise Refused(f"a room is between 0 and 2^63-1, not {room}", code="malformed")
    journal = RoomBinding.objects.using(TRAFFIC).filter(room=room)
    last = journal.values("instance_id").annotate(last=Max("id")).values("last")
    bindings = list(RoomBinding.objects.using(TRAFFIC).filter(id__in=list(last.values_list("last", flat=True))))
    collisions: dict[int, list[CollisionRow]] = defaultdict(list)
    for collision in RoomCollision.objects.using(TRAFFIC).filter(room=room).order_by("id"):
        collisions[collision.instance_id].append(CollisionRow(collision.before, collision.after, collision.at))
    ids = [binding.instance_id for binding in bindings]
    names = dict(Instance.objects.using(READER).filter(pk__in=ids).values_list("pk", "name"))
    rows = [
        RoomRow(
            names.get(binding.instance_id, f"instance {binding.instance_id}"),
            room,
            binding.dp,
            binding.expires_ms / 1000,
            binding.expires_ms > now * 1000,
            tuple(collisions[binding.instance_id]),
        )
        for binding in bindings
    ]
    return tuple(sorted(rows, key=lambda row: (not row.live, row.instance)))
