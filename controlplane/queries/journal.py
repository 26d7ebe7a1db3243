"""Follow the journal of room bindings for one drain: what still lives, and what was bound after the drain began.

The journal has no index by instance, and grows at request rate: each look reads only what came since the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connections
from django.db.models import Max

from controlplane.databases import TRAFFIC
from controlplane.domain.drain import Room, Rooms
from controlplane.models import RoomBinding

SINCE = """
SELECT CASE WHEN id > %s THEN 1 ELSE 0 END AS late, MIN(id), MAX(expires_ms) FROM controlplane_roombinding
WHERE id > %s AND id <= %s AND instance_id = %s AND expires_ms > %s{group} GROUP BY 1 ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class Position:
    """Read up to which row; what was found so far."""

    upto: int = 0
    rooms: Rooms = field(default_factory=Rooms)

    def data(self) -> dict[str, Any]:
        late = self.rooms.late
        return {
            "upto": self.upto,
            "until": self.rooms.until,
            # A room is a 63-bit number: too long for what reads JSON numbers as floats.
            "late": {"room": str(late.room), "dp": late.dp, "until": late.until} if late else None,
            "late_until": self.rooms.late_until,
        }

    @staticmethod
    def read(data: Mapping[str, Any]) -> Position:
        late = data.get("late")
        room = Room(int(late["room"]), late["dp"], late["until"]) if late else None
        rooms = Rooms(data.get("until", 0.0), room, data.get("late_until", 0.0))
        return Position(data.get("upto", 0), rooms)


def newest() -> int:
    return RoomBinding.objects.using(TRAFFIC).aggregate(newest=Max("id"))["newest"] or 0


def follow(before: Position, instance_id: int, group: int | None, mark: int, newest: int, now: float) -> Position:
    """Read on to `newest`. `mark`: the newest row when the drain began; of an instance, or of one DP group of it."""
    # A journal that was restored, and is shorter now, is read from its beginning.
    upto = before.upto if before.upto <= newest else 0
    if upto == newest:
        return Position(upto, _without_expired(before.rooms, now))
    sql = SINCE.format(group=" AND dp = %s" if group is not None else "")
    values = [mark, upto, newest, instance_id, round(now * 1000), *([group] if group is not None else [])]
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(sql, values)
        found = {bool(late): (first, expires_ms / 1000) for late, first, expires_ms in cursor.fetchall()}
    rooms = _without_expired(before.rooms, now)
    until = max(rooms.until, found.get(False, (0, 0.0))[1])
    first, late_until = found.get(True, (0, 0.0))
    late = rooms.late or (_room(first) if first else None)
    return Position(newest, Rooms(until, late, max(rooms.late_until, late_until)))


def _without_expired(rooms: Rooms, now: float) -> Rooms:
    late = rooms.late if rooms.late is not None and rooms.late.until > now else None
    return Rooms(rooms.until, late, rooms.late_until)


def _room(id_: int) -> Room | None:
    row = RoomBinding.objects.using(TRAFFIC).filter(pk=id_).first()
    return Room(row.room, row.dp, row.expires_ms / 1000) if row else None


@dataclass(frozen=True, slots=True)
class LivingRow:
    """A room that is bound to a DP rank until `expires_at`; `late`: since the drain in question began."""

    room: int
    dp: int
    expires_at: float
    late: bool


SEARCHED = 200_000
"""So many of the newest bindings are looked through for people: a journal of millions would hold a page up."""

LIVING = """
SELECT id, room, dp, expires_ms FROM controlplane_roombinding
WHERE id > %s AND instance_id = %s AND expires_ms > %s{group} ORDER BY id DESC LIMIT %s"""


def living(
    instance_id: int, group: int | None, *, mark: int, now: float, limit: int, searched: int = SEARCHED
) -> tuple[LivingRow, ...]:
    """Rooms of an instance, or of one DP group of it, that still live: the newest bindings first. `mark` as in follow()."""
    sql = LIVING.format(group=" AND dp = %s" if group is not None else "")
    values = [newest() - searched, instance_id, round(now * 1000), *([group] if group is not None else []), limit]
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(sql, values)
        found = cursor.fetchall()
    # Of a room that was bound twice the last binding counts.
    last = {room: (id_, dp, expires_ms) for id_, room, dp, expires_ms in reversed(found)}
    rows = [LivingRow(room, dp, expires_ms / 1000, id_ > mark) for room, (id_, dp, expires_ms) in last.items()]
    return tuple(reversed(rows))
