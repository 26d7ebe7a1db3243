"""Forget samples of the series that are older than they are kept."""

from __future__ import annotations

from controlplane.databases import TRAFFIC
from controlplane.models import Sample

from .keeping import before, keeping
from .trimming import Budget, count, delete

SLACK_SECONDS = 600.0
"""How much longer they are kept: whoever looks at a whole day must not see its beginning go."""


def forget_old(*, now: float, budget: Budget | None = None) -> int:
    """How many went."""
    old = before(now, keeping().samples)
    if old is None:
        return 0
    table = Sample._meta.db_table
    gone = delete(table, "at < %s", [old - SLACK_SECONDS], budget=budget or Budget(), alias=TRAFFIC)
    return count("samples", gone, now=now)
