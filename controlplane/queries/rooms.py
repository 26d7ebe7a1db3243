"""Where rooms are bound, according to the journal: which instance, which DP rank, until when, and who else claimed it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, QuerySet

from controlplane.databases import READER, TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.models import Instance, RoomBinding, RoomCollision, RoomReuse

MAX_ROOM = 2**63 - 1
MOST = 1000


@dataclass(frozen=True, slots=True)
class CollisionRow:
    """A binding that displaced another while that one was alive."""

    before: int
    after: int
    at: float


@dataclass(frozen=True, slots=True)
class ReuseRow:
    """A binding of a room whose earlier one was over: expired, or evicted before that, for there were too many."""

    before: int
    after: int
    over: str
    expired_at: float
    at: float

    @property
    def late(self) -> bool:
        """The same DP rank again: rather a late word of the same request than another one."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class RoomRow:
    """The last binding of a room in one instance; `live` says whether the wire still answers with it."""

    instance: str
    room: int
    dp: int
    expires_at: float
    live: bool
    collisions: tuple[CollisionRow, ...] = ()
    reuses: tuple[ReuseRow, ...] = ()


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
    reuses: dict[int, list[ReuseRow]] = defaultdict(list)
    for reuse in RoomReuse.objects.using(TRAFFIC).filter(room=room).order_by("id"):
        reuses[reuse.instance_id].append(_reuse(reuse))
    names = _names(binding.instance_id for binding in bindings)
    rows = [
        RoomRow(
            names[binding.instance_id],
            room,
            binding.dp,
            binding.expires_ms / 1000,
            binding.expires_ms > now * 1000,
            tuple(collisions[binding.instance_id]),
            tuple(reuses[binding.instance_id]),
        )
        for binding in bindings
    ]
    return tuple(sorted(rows, key=lambda row: (not row.live, row.instance)))


@dataclass(frozen=True, slots=True)
class BindingRow:
    """A living binding. `id` is its place in the journal: the newest have the highest."""

    id: int
    instance: str
    room: int
    dp: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class CollidedRow:
    """A room that was taken from a DP rank while that binding was alive."""

    id: int
    instance: str
    room: int
    before: int
    after: int
    at: float


@dataclass(frozen=True, slots=True)
class ReusedRow:
    """A room that came back after its binding was over."""

    id: int
    instance: str
    room: int
    reuse: ReuseRow


@dataclass(frozen=True, slots=True)
class RoomPage:
    """The newest first; `next` asks for older ones, empty at the end. A page may hold fewer than asked for, and go on."""

    rows: tuple[BindingRow, ...]
    next: str


@dataclass(frozen=True, slots=True)
class CollisionPage:
    rows: tuple[CollidedRow, ...]
    next: str


@dataclass(frozen=True, slots=True)
class ReusePage:
    rows: tuple[ReusedRow, ...]
    next: str


def live_rooms(instance: str, *, now: float, after: str = "", limit: int = 100) -> RoomPage:
    """Rooms that the wire still answers for, of one instance. Raises Refused (not_found, malformed)."""
    known = Instance.objects.using(READER).filter(name=instance).first()
    if known is None:
        raise Refused(f"no instance is named {instance}", code="not_found")
    _check_limit(limit)
    journal = RoomBinding.objects.using(TRAFFIC).filter(instance_id=known.pk)
    living = journal.filter(id__lt=_before(after), expires_ms__gt=round(now * 1000)).order_by("-id")
    found = list(living[: limit + 1])
    shown = found[:limit]
    # A room that was bound again further up is told there: the last row of a room is the one that counts.
    again = _bound_again(journal.filter(id__gt=shown[-1].pk) if shown else journal.none(), {row.room for row in shown})
    rows = tuple(
        BindingRow(row.pk, instance, row.room, row.dp, row.expires_ms / 1000)
        for row in shown
        if again.get(row.room, row.pk) == row.pk
    )
    return RoomPage(rows, str(shown[-1].pk) if len(found) > limit else "")


def collisions(*, instance: str = "", room: int | None = None, after: str = "", limit: int = 100) -> CollisionPage:
    """Rooms that were bound to another rank while their first binding was alive, the newest first."""
    rows = _seen(RoomCollision.objects.using(TRAFFIC).all(), instance, room, after, limit)
    names = _names(row.instance_id for row in rows)
    shown = tuple(
        CollidedRow(row.pk, names[row.instance_id], row.room, row.before, row.after, row.at) for row in rows[:limit]
    )
    return CollisionPage(shown, str(shown[-1].id) if len(rows) > limit else "")


def reuses(*, instance: str = "", room: int | None = None, after: str = "", limit: int = 100) -> ReusePage:
    """Rooms that were bound once more after their binding was over, the newest first."""
    rows = _seen(RoomReuse.objects.using(TRAFFIC).all(), instance, room, after, limit)
    names = _names(row.instance_id for row in rows)
    shown = tuple(ReusedRow(row.pk, names[row.instance_id], row.room, _reuse(row)) for row in rows[:limit])
    return ReusePage(shown, str(shown[-1].id) if len(rows) > limit else "")


def _seen(rows: QuerySet[Any], instance: str, room: int | None, after: str, limit: int) -> list[Any]:
    """One more than asked for, if there is one."""
    _check_limit(limit)
    found = rows.filter(id__lt=_before(after)).order_by("-id")
    if instance:
        known = Instance.objects.using(READER).filter(name=instance).first()
        if known is None:
            raise Refused(f"no instance is named {instance}", code="not_found")
        found = found.filter(instance_id=known.pk)
    if room is not None:
        found = found.filter(room=room)
    return list(found[: limit + 1])


def _reuse(row: RoomReuse) -> ReuseRow:
    return ReuseRow(row.before, row.after, row.over, row.expired_at, row.at)


def _bound_again(journal: QuerySet[RoomBinding], rooms: Iterable[int]) -> dict[int, int]:
    """The newest row of each of these rooms. There is no index by room: this reads what is newer than the page."""
    last = journal.filter(room__in=rooms).values("room").annotate(last=Max("id"))
    return dict(last.values_list("room", "last"))


def _names(ids: Iterable[int]) -> dict[int, str]:
    wanted = set(ids)
    known = dict(Instance.objects.using(READER).filter(pk__in=wanted).values_list("pk", "name"))
    return {id_: known.get(id_, f"instance {id_}") for id_ in wanted}


def _before(after: str) -> int:
    if not after:
        return MAX_ROOM
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise Refused("after must be what an earlier page gave as next", code="malformed")
    return int(after)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MOST:
        raise Refused(f"limit must be between 1 and {MOST}, not {limit}", code="malformed")
