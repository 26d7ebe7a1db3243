"""Delete what is old, a bounded piece at a time, so that whoever writes beside it waits for a moment only; and count it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connections

from controlplane.databases import FACTS

CHUNK = 500
PAUSE_SECONDS = 0.005
BUDGET_SECONDS = 5.0

COUNT = """
INSERT INTO controlplane_trimmed (subject, at, count, total) VALUES (%s, %s, %s, %s)
ON CONFLICT (subject) DO UPDATE SET at = excluded.at, count = excluded.count,
 total = controlplane_trimmed.total + excluded.total"""


class Budget:
    """So much time, for everything together that asks `left()` between two pieces."""

    def __init__(self, seconds: float = BUDGET_SECONDS) -> None:
        self._until = time.monotonic() + seconds

    def left(self) -> bool:
        return time.monotonic() < self._until


def delete(
    table: str, where: str, values: Sequence[Any], *, budget: Budget, alias: str = FACTS, key: str = "id"
) -> int:
    """Rows of `table` for which `where` holds, in the order of `key`; how many went. What is left waits for the next round."""

    def piece() -> int:
        with connections[alias].cursor() as cursor:
            # Looked for apart, since a DELETE would hold SQLite's write lock all the while; and compared once more.
            cursor.execute(f"SELECT {key} FROM {table} WHERE {where} ORDER BY {key} LIMIT {CHUNK}", values)
            found = [row[0] for row in cursor.fetchall()]
            if not found:
                return 0
            marks = ", ".join(["%s"] * len(found))
            cursor.execute(f"DELETE FROM {table} WHERE {key} IN ({marks}) AND ({where})", [*found, *values])
            return int(cursor.rowcount)

    return in_pieces(piece, CHUNK, budget)


def in_pieces(piece: Callable[[], int], size: int, budget: Budget) -> int:
    """Until a piece comes back smaller than `size`, or the time is over."""
    gone = 0
    while True:
        count = piece()
        gone += count
        if count < size or not budget.left():
            return gone
        time.sleep(PAUSE_SECONDS)


def count(subject: str, gone: int, *, now: float) -> int:
    """Keep how many of a subject went; the same number."""
    if gone:
        with connections[FACTS].cursor() as cursor:
            cursor.execute(COUNT, [subject, now, gone, gone])
    return gone
