"""The few numbers that stand around every page, in one query: what waits for somebody, and how our own processes do."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache
from django.db import connections

from controlplane.databases import READER

from .rows import LeaderRow

COUNTS = """SELECT
 (SELECT COUNT(*) FROM controlplane_drain WHERE ended_at IS NULL AND blockers <> '[]'),
 (SELECT COUNT(*) FROM controlplane_engineinfo WHERE state = 'conflict'),
 (SELECT COUNT(*) FROM controlplane_gateway WHERE left_at IS NULL AND %s - seen_at > lease_seconds),
 (SELECT COUNT(*) FROM controlplane_router WHERE problem <> '' OR state = 'away'),
 (SELECT expires_at FROM controlplane_lease WHERE name = 'bootstrap')"""

PULSE = "pdcp-clockwork"
"""The cache key under which the clockwork (Celery) leaves when it last ended a task, in epoch seconds."""

CLOCKWORK_LEASE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One of our own processes: when it was last seen at work, None when nothing tells."""

    name: str
    seen_at: float | None
    fine: bool


@dataclass(frozen=True, slots=True)
class Badges:
    blocked_drains: int
    engine_conflicts: int
    in_trouble: int
    """Gateways whose lease is over, and routers that are away or out of step."""

    processes: tuple[ProcessRow, ...]


def badges(*, now: float) -> Badges:
    """One query, and one look into the cache, which may be away."""
    with connections[READER].cursor() as cursor:
        cursor.execute(COUNTS, [now])
        drains, conflicts, silent, routers, stamp = cursor.fetchone()
    leader = LeaderRow("", 0, stamp or 0.0, settings.PDCP_LEASE_SECONDS)
    beat = _pulse()
    return Badges(
        drains,
        conflicts,
        silent + routers,
        (
            ProcessRow("bootstrap", leader.stamp or None, leader.leads(now)),
            ProcessRow("clockwork", beat, beat is not None and now - beat <= CLOCKWORK_LEASE_SECONDS),
            ProcessRow("web", now, True),
        ),
    )


def _pulse() -> float | None:
    try:
        found = cache.get(PULSE)
    except Exception:
        # Redis is away: nothing tells, and pages are shown all the same.
        return None
    return float(found) if isinstance(found, int | float) else None
