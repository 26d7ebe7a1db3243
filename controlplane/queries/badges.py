"""The few numbers that stand around every page, in two queries: what waits for somebody, and how our own processes do."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connections

from controlplane.databases import READER

from . import clockwork
from .rows import LeaderRow

COUNTS = """SELECT
 (SELECT COUNT(*) FROM controlplane_drain WHERE ended_at IS NULL AND blockers <> '[]'),
 (SELECT COUNT(*) FROM controlplane_engineinfo WHERE state = 'conflict'),
 (SELECT COUNT(*) FROM controlplane_gateway WHERE left_at IS NULL AND %s - seen_at > lease_seconds),
 (SELECT COUNT(*) FROM controlplane_router WHERE problem <> '' OR state = 'away'),
 (SELECT expires_at FROM controlplane_lease WHERE name = 'bootstrap'),
 (SELECT COUNT(*) FROM controlplane_alarm
  WHERE resolved_at IS NULL AND raised_at IS NOT NULL AND acknowledged_at IS NULL)"""


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
    new_alarms: int = 0
    """Alarms that are open, and that nobody has acknowledged."""


def badges(*, now: float) -> Badges:
    with connections[READER].cursor() as cursor:
        cursor.execute(COUNTS, [now])
        drains, conflicts, silent, routers, stamp, alarms = cursor.fetchone()
    leader = LeaderRow("", 0, stamp or 0.0, settings.PDCP_LEASE_SECONDS)
    tasks = clockwork.listing()
    return Badges(
        drains,
        conflicts,
        silent + routers,
        (
            ProcessRow("bootstrap", leader.stamp or None, leader.leads(now)),
            ProcessRow("clockwork", clockwork.heard_at(tasks), clockwork.is_fine(tasks, now=now)),
            ProcessRow("web", now, True),
        ),
        alarms,
    )
