"""Leases of worker processes in memory: who said what last, and until when that counts on our monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from controlplane.domain.errors import Refused
from controlplane.domain.worker_leases import WorkerLease

MAX_WORKERS = 100_000
"""Names of workers are theirs to choose."""


class Leases:
    """Values as they are stored; only the recorder changes them, after a commit. When each is over is ours alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[str, WorkerLease] = {}
        self._due: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, worker: str) -> WorkerLease | None:
        return self._held.get(worker)

    def check_room_for(self, worker: str) -> None:
        if worker not in self._held and len(self._held) >= MAX_WORKERS:
            raise Refused(
                f"{MAX_WORKERS:,} workers have leases here; give a worker a name that it keeps over restarts",
                code="unavailable",
            )

    def load(self, leases: Iterable[WorkerLease]) -> None:
        """As stored. Whoever is not known yet has a whole lease from now on: of the time before, we heard nothing."""
        found = {lease.worker: lease for lease in leases}
        now = self._clock()
        self._due = {worker: self._due.get(worker, now + lease.seconds) for worker, lease in found.items()}
        self._held = found

    def hear(self, worker: str, seconds: float) -> None:
        """A heartbeat came in, whether or not it can be stored. Of a worker that is new, only what is stored counts."""
        if worker in self._held:
            self._due[worker] = self._clock() + seconds

    def publish(self, changed: Mapping[str, WorkerLease | None]) -> None:
        """What a commit has stored; None: deleted."""
        for worker, lease in changed.items():
            if lease is None:
                self._held.pop(worker, None)
                self._due.pop(worker, None)
            else:
                self._held[worker] = lease
                self._due.setdefault(worker, self._clock() + lease.seconds)

    def forgive(self) -> None:
        """Everybody has one lease more."""
        now = self._clock()
        for worker, lease in self._held.items():
            self._due[worker] = max(self._due.get(worker, 0.0), now + lease.seconds)

    def is_over(self, worker: str) -> bool:
        now = self._clock()
        return self._due.get(worker, now) <= now

    def over(self) -> list[WorkerLease]:
        """Those that were not heard from for their whole lease, late or not."""
        now = self._clock()
        return [lease for worker, lease in self._held.items() if self._due.get(worker, now) <= now]
