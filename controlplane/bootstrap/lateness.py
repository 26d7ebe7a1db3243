"""The look each second at leases of workers that are over: late once, back when heard from, gone with their launch.

A late worker is told of and shown. It evicts nobody: its ranks answer probes, or do not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from controlplane.domain.topology import Slot
from controlplane.domain.worker_leases import Fate, WorkerLease, became_late, fate, went
from controlplane.ledger.writes import Writes

from .fleet import Fleet, Instance
from .leases import Leases
from .loading import rows
from .recorder import Operation, Recorder, Staged

log = structlog.get_logger()

LOOK_SECONDS = 1.0
HELD_UP_SECONDS = 3.0
"""We did not look for so long: heartbeats may have come and wait, unread."""

MOST_AT_ONCE = 500
STORED = "SELECT worker, instance_id, token, slots, seen_at, expires_at, late_since FROM controlplane_workerlease"
FORGET = "DELETE FROM controlplane_workerlease WHERE worker = %s"


def load_leases() -> list[WorkerLease]:
    return [
        WorkerLease(worker, instance, token, read_slots(slots), seen_at, expires_at - seen_at, late_since)
        for worker, instance, token, slots, seen_at, expires_at, late_since in rows(STORED)
    ]


def read_slots(text: str) -> tuple[Slot, ...]:
    """
    >>> read_slots("0.0.3.0 1.0.0.0")
    (Slot(dp=0, cp=0, tp=3, pp=0), Slot(dp=1, cp=0, tp=0, pp=0))
    """
    return tuple(Slot(*map(int, slot.split("."))) for slot in text.split())


def stored(lease: WorkerLease) -> tuple[object, ...]:
    """As a row of the table."""
    slots = " ".join(".".join(map(str, slot)) for slot in lease.slots)
    times = (lease.seen_at, lease.expires_at, lease.late_since)
    return (lease.worker, lease.instance, lease.token, slots, *times)


class Expire(Operation):
    """A lease is over. Says so once, and forgets whoever is of no use any more."""

    __slots__ = ("leases", "seen")

    def __init__(self, instance: Instance, seen: WorkerLease, leases: Leases) -> None:
        super().__init__(instance)
        self.seen, self.leases = seen, leases

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        worker = self.seen.worker
        lease = staged.leases.get(worker, self.leases.get(worker))
        if lease is None or lease.seen_at != self.seen.seen_at or not self.leases.is_over(worker):
            # It was heard from meanwhile, perhaps in this very batch and of another instance.
            return
        retired = self.instance.retired
        match fate(lease, staged.directory, retired=retired, now=now):
            case Fate.LATE:
                staged.leases[worker], turned = became_late(lease, now)
                writes.leases[worker] = stored(staged.leases[worker])  # type: ignore[arg-type]
                writes.note_plain(self.instance.name, turned.kind, turned.data, now)
            case Fate.GONE:
                staged.leases[worker] = None
                writes.leases.pop(worker, None)
                writes.ordered.append((FORGET, (worker,)))
                if (left := went(lease, retired=retired, now=now)) is not None:
                    writes.note_plain(self.instance.name, left.kind, left.data, now)


class Lateness:
    """Runs while a term lasts."""

    def __init__(
        self,
        fleet: Fleet,
        recorder: Recorder,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet, self._recorder = fleet, recorder
        self._wall, self._clock = wall, clock
        self._looked_at: float | None = None

    async def run(self) -> None:
        # Until now nobody could reach us.
        self._fleet.leases.forgive()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            begun = self.look()
            if begun is not None:
                await asyncio.shield(begun)

    def look(self) -> asyncio.Future[None] | None:
        """Submit what there is to say, a bounded number at once; the future of it."""
        now, before = self._clock(), self._looked_at
        self._looked_at = now
        leases = self._fleet.leases
        if before is not None and now - before > HELD_UP_SECONDS:
            leases.forgive()
            return None
        begun, changed = None, 0
        for lease in leases.over():
            instance = self._fleet.by_id.get(lease.instance)
            if instance is None:
                leases.publish({lease.worker: None})
                continue
            if fate(lease, instance.directory, retired=instance.retired, now=self._wall()) is Fate.STAYS:
                continue
            begun = self._recorder.submit(Expire(instance, lease, leases))
            changed += 1
            if changed >= MOST_AT_ONCE:
                break
        return begun
