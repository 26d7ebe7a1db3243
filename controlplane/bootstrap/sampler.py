"""Keeps a sample of what this process does, every ten seconds: what grew since the last one, and what there is now."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import structlog

from controlplane.domain.rooms import Rooms
from controlplane.ledger.failures import FencedOut, OutcomeUnknown
from controlplane.models.samples import SAMPLE_SECONDS
from controlplane.probes.timing import Timing, percentile

from .room_recorder import RoomRecorder
from .tally import Tally

log = structlog.get_logger()


class Reading(NamedTuple):
    """Counters that only grow, as they stood at one moment (monotonic seconds)."""

    at: float
    registrations: int
    lookups: int
    bindings: int
    collisions: int
    refusals: int
    probes: int
    unanswered: int


class Sampler:
    """Reads counters that exist anyway; nothing on the wire waits for it."""

    def __init__(
        self, tally: Tally, recorder: RoomRecorder, rooms: Rooms, timing: Timing, *, every: float = SAMPLE_SECONDS
    ) -> None:
        self._tally = tally
        self._recorder = recorder
        self._rooms = rooms
        self._timing = timing
        self._every = every
        self._before = self._read()

    async def run(self) -> None:
        """At every whole `every` seconds of the clock, until another process leads."""
        while True:
            await asyncio.sleep(self._every - time.time() % self._every)
            self._tally.let_go(time.time())
            now = self._read()
            if now.at - self._before.at < self._every / 100:
                # We woke a little early then, and the whole second came only now.
                continue
            try:
                await self._recorder.keep_sample(self._sample(now))
            except FencedOut:
                return
            except OutcomeUnknown:
                # Rather a hole than the same counts twice.
                log.warning("sample_outcome_unknown")
            except Exception as problem:
                # The next one counts from where this one did.
                log.warning("sample_not_kept", problem=str(problem)[:300])
                continue
            self._before = now

    def _sample(self, now: Reading) -> tuple[object, ...]:
        """A row, in the order of the columns of `tables.SAMPLE`."""
        before, took = self._before, self._timing.empty()
        p50, p99 = (None if (at := percentile(took, share)) is None else at * 1000 for share in (0.50, 0.99))
        return (
            time.time(),
            now.at - before.at,
            now.registrations - before.registrations,
            now.lookups - before.lookups,
            now.bindings - before.bindings,
            now.collisions - before.collisions,
            now.refusals - before.refusals,
            self._rooms.count,
            now.probes - before.probes,
            now.unanswered - before.unanswered,
            p50,
            p99,
        )

    def _read(self) -> Reading:
        tally, recorder, timing = self._tally, self._recorder, self._timing
        return Reading(
            time.monotonic(),
            tally.registrations,
            tally.lookups,
            recorder.bound,
            recorder.collisions,
            tally.refusals,
            timing.asked,
            timing.unanswered,
        )
