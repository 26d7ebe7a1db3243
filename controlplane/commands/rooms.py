"""Trim what has expired from the journal of room bindings, and old collisions, a bounded piece at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from django.db import connections
from django.db.models import Max, Min

from controlplane.databases import TRAFFIC
from controlplane.models import RoomBinding, RoomCollision

CHUNK = 2000
SLACK_SECONDS = 30.0
"""How long an expired binding is kept: this process's clock may run ahead of the one that set the expiry."""

COLLISIONS_KEPT_SECONDS = 86_400.0
COLLISIONS_KEPT = 100_000
PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Trimmed:
    bindings: int = 0
    collisions: int = 0


def trim_expired(*, now: float, chunk: int = CHUNK) -> Trimmed:
    """Delete at most `chunk` bindings and `chunk` collisions. Nothing is left to do when both come back smaller."""
    return Trimmed(_cut_journal(now, chunk), _cut_collisions(now, chunk))


def trim_for(seconds: float, *, clock: Callable[[], float] = time.time, chunk: int = CHUNK) -> Trimmed:
    """Trim until nothing is left to do, or for so long. Between two pieces the recorder gets its turn."""
    until = time.monotonic() + seconds
    total = Trimmed()
    while True:
        piece = trim_expired(now=clock(), chunk=chunk)
        total = Trimmed(total.bindings + piece.bindings, total.collisions + piece.collisions)
        if max(piece.bindings, piece.collisions) < chunk or time.monotonic() >= until:
            return total
        time.sleep(PAUSE_SECONDS)


def _cut_journal(now: float, chunk: int) -> int:
    """Cut the head up to the first row that may still count.

    Only the head: a later expired row may hide an earlier living one of its room (after a change of the time to live),
    and the last row of a room is the one that counts.
    """
    before = round((now - SLACK_SECONDS) * 1000)
    head = RoomBinding.objects.using(TRAFFIC).order_by("id").values_list("id", "expires_ms")[:chunk]
    expired = list(takewhile(lambda row: row[1] <= before, head))
    return _delete_up_to(RoomBinding._meta.db_table, expired[-1][0]) if expired else 0


def _cut_collisions(now: float, chunk: int) -> int:
    collisions = RoomCollision.objects.using(TRAFFIC)
    ends = collisions.aggregate(first=Min("id"), last=Max("id"))
    if ends["first"] is None:
        return 0
    old = now - COLLISIONS_KEPT_SECONDS
    head = collisions.order_by("id").values_list("id", "at")[:chunk]
    surplus = ends["last"] - COLLISIONS_KEPT
    gone = list(takewhile(lambda row: row[1] <= old or row[0] <= surplus, head))
    return _delete_up_to(RoomCollision._meta.db_table, gone[-1][0]) if gone else 0


def _delete_up_to(table: str, last: int) -> int:
    # One statement, so that the write lock is held for nothing else.
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE id <= %s", [last])
        return int(cursor.rowcount)
