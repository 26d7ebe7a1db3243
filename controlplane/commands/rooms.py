"""Trim what has expired from the journal of room bindings, and old collisions and reuses, a bounded piece at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from django.conf import settings
from django.db import connections
from django.db.models import Max, Min

from controlplane.databases import TRAFFIC
from controlplane.models import RoomBinding, RoomCollision, RoomReuse

CHUNK = 2000
SLACK_SECONDS = 30.0
"""How long an expired binding is kept at least: this process's clock may run ahead of the one that set the expiry. It is
also kept for as long as it is recognised when it comes back, so that a restart does not forget that."""

JOURNALS_KEPT = 4
"""So many times as many rows as there may be bindings: what is older counts for nothing, whenever it says that it expires. A
clock that was ahead when it was written would keep it, and all that came after it, until then."""

COLLISIONS_KEPT_SECONDS = 86_400.0
COLLISIONS_KEPT = 100_000
PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Trimmed:
    bindings: int = 0
    collisions: int = 0
    reuses: int = 0

    def __add__(self, other: Trimmed) -> Trimmed:
        return Trimmed(self.bindings + other.bindings, self.collisions + other.collisions, self.reuses + other.reuses)


def trim_expired(*, now: float, chunk: int = CHUNK) -> Trimmed:
    """Delete at most `chunk` bindings, collisions and reuses each. Nothing is left to do when all come back smaller."""
    seen = (_cut_seen(model, now, chunk) for model in (RoomCollision, RoomReuse))
    return Trimmed(_cut_journal(now, chunk), *seen)


def trim_for(seconds: float, *, clock: Callable[[], float] = time.time, chunk: int = CHUNK) -> Trimmed:
    """Trim until nothing is left to do, or for so long. Between two pieces the recorder gets its turn."""
    until = time.monotonic() + seconds
    total = Trimmed()
    while True:
        piece = trim_expired(now=clock(), chunk=chunk)
        total += piece
        if max(piece.bindings, piece.collisions, piece.reuses) < chunk or time.monotonic() >= until:
            return total
        time.sleep(PAUSE_SECONDS)


def kept_after_expiry() -> float:
    """For how many seconds a binding that is over stays in the journal."""
    return float(max(SLACK_SECONDS, settings.PDCP_ROOM_TOMBSTONE_SECONDS))


def _cut_journal(now: float, chunk: int) -> int:
    """Cut the head up to the first row that may still count.

    Only the head: a later expired row may hide an earlier living one of its room (after a change of the time to live),
    and the last row of a room is the one that counts.
    """
    before = round((now - kept_after_expiry()) * 1000)
    rows = RoomBinding.objects.using(TRAFFIC).order_by("id").values_list("id", "expires_ms")
    surplus = (rows.values_list("id", flat=True).last() or 0) - JOURNALS_KEPT * settings.PDCP_ROOM_LIMIT
    expired = list(takewhile(lambda row: row[1] <= before or row[0] <= surplus, rows[:chunk]))
    return _delete_up_to(RoomBinding._meta.db_table, expired[-1][0]) if expired else 0


def _cut_seen(model: type[RoomCollision] | type[RoomReuse], now: float, chunk: int) -> int:
    rows = model._default_manager.using(TRAFFIC)
    ends = rows.aggregate(first=Min("id"), last=Max("id"))
    if ends["first"] is None:
        return 0
    old = now - COLLISIONS_KEPT_SECONDS
    head = rows.order_by("id").values_list("id", "at")[:chunk]
    surplus = ends["last"] - COLLISIONS_KEPT
    gone = list(takewhile(lambda row: row[1] <= old or row[0] <= surplus, head))
    return _delete_up_to(model._meta.db_table, gone[-1][0]) if gone else 0


def _delete_up_to(table: str, last: int) -> int:
    # One statement, so that the write lock is held for nothing else.
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE id <= %s", [last])
        return int(cursor.rowcount)
