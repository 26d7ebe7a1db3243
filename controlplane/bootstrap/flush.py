"""Ends a flush when the door has told every poller twice."""

from __future__ import annotations

import asyncio
import time

from .fleet import Fleet
from .operations import Flushed
from .recorder import Recorder

TICK_SECONDS = 0.25


async def end_flushes_forever(fleet: Fleet, recorder: Recorder) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        now = time.time()
        ending = [
            instance
            for instance in fleet.by_id.values()
            if (debt := instance.directory.debt) is not None
            and not debt.hold
            and instance.pollers.flush_is_over(debt.since, now)
        ]
        for instance in ending:
            await recorder.submit(Flushed(instance))
