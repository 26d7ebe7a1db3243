"""The lease that a heartbeat gives a worker process: when it is late, when it is heard from again, when it is gone.

A late worker says nothing about its ranks: those answer probes, or do not. So lateness is told and shown, and evicts nobody.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .directory import Directory
from .topology import Slot

FORGOTTEN_SECONDS = 86_400.0
"""Late for so long, a worker is gone, whoever holds its slots."""


@dataclass(frozen=True, slots=True)
class WorkerLease:
    """What one worker process said last: which slots it holds, of which launch, and for how long that counts."""

    worker: str
    instance: int
    token: str | None
    slots: tuple[Slot, ...]
    seen_at: float
    seconds: float
    late_since: float | None = None

    @property
    def expires_at(self) -> float:
        return self.seen_at + self.seconds

    @property
    def late(self) -> bool:
        return self.late_since is not None


class Fate(enum.Enum):
    """What becomes of a lease that is over."""

    STAYS = "stays"
    LATE = "late"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Turned:
    """An event about a worker, as the ledger stores it."""

    kind: str
    data: dict[str, Any]


def fate(lease: WorkerLease, directory: Directory, *, retired: bool, now: float) -> Fate:
    """Once it was not heard from for its lease, and the grace after a restart of ours, whatever clock says so."""
    if retired or not _of_use(lease, directory):
        return Fate.GONE
    if not lease.late:
        return Fate.LATE
    return Fate.GONE if now - (lease.late_since or now) > FORGOTTEN_SECONDS else Fate.STAYS


def holds(directory: Directory, slot: Sequence[int], token: str | None, *, seen_since: float = 0.0) -> bool:
    """Whether a launch that can be the worker's has somebody in the slot, seen since then."""
    for launch in directory.launches():
        row = launch.rows.get(slot)  # type: ignore[call-overload]
        if row is not None and (token is None or launch.token in (None, token)) and row.seen_at >= seen_since:
            return True
    return False


def became_late(lease: WorkerLease, now: float) -> tuple[WorkerLease, Turned]:
    data = {
        "worker": lease.worker,
        "slots": [list(slot) for slot in lease.slots],
        "token": lease.token,
        "seen_at": lease.seen_at,
        "lease_seconds": lease.seconds,
        "since": now,
    }
    return replace(lease, late_since=now), Turned("worker.late", data)


def came_back(before: WorkerLease | None, now: float) -> Turned | None:
    """The event when a worker that was late is heard from; None when it was not."""
    if before is None or before.late_since is None:
        return None
    return Turned("worker.back", {"worker": before.worker, "late_seconds": round(max(0.0, now - before.late_since), 3)})


def went(lease: WorkerLease, *, retired: bool, now: float) -> Turned | None:
    """Of whom nobody knew that it is late, nobody need be told that it is gone."""
    if not lease.late:
        return None
    long_ago = now - (lease.late_since or now) > FORGOTTEN_SECONDS
    why = "its instance was retired" if retired else LONG_AGO if long_ago else NO_RANKS
    return Turned("worker.gone", {"worker": lease.worker, "why": why})


LONG_AGO = "it was not heard from for a day"
NO_RANKS = "its launch is over, or its ranks have left"


def _of_use(lease: WorkerLease, directory: Directory) -> bool:
    """Whether anything of the worker's is there still: a launch that can be its own, and in it one of its slots."""
    if lease.slots:
        return any(holds(directory, slot, lease.token) for slot in lease.slots)
    return any(lease.token is None or launch.token in (None, lease.token) for launch in directory.launches())
