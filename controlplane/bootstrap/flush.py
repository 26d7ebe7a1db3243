"""Ends a flush when the door has told every poller twice. How long it lasts is measured: the host's clock may be set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from controlplane.domain.health import FIRST_POLL_WITHIN, FLUSH_LIMIT

from .fleet import Fleet, Instance
from .operations import Flushed
from .recorder import Recorder

TICK_SECONDS = 0.25


class Flushes:
    """Since when each instance owes one, by the clock that pollers are counted by (`now`, monotonic seconds)."""

    def __init__(self, instances: Iterable[Instance], *, wall: float, now: float) -> None:
        # Of those that another process began nobody knows more than the hour that it wrote down. However that was set since:
        # whoever polls has time to come back and be told.
        self._began = {
            instance.id: (debt.since, now - min(max(wall - debt.since, 0.0), FLUSH_LIMIT - FIRST_POLL_WITHIN))
            for instance in instances
            if (debt := instance.directory.debt) is not None
        }

    def over(self, instances: Iterable[Instance], now: float) -> list[Instance]:
        """Those that may end."""
        before, self._began = self._began, {}
        ending = []
        for instance in instances:
            debt = instance.directory.debt
            if debt is None:
                continue
            since, began = before.get(instance.id, (None, now))
            began = began if since == debt.since else now
            self._began[instance.id] = (debt.since, began)
            if not debt.hold and instance.pollers.flush_is_over(began, now):
                ending.append(instance)
        return ending


async def end_flushes_forever(fleet: Fleet, recorder: Recorder) -> None:
    flushes = Flushes(fleet.by_id.values(), wall=time.time(), now=time.monotonic())
    while True:
        await asyncio.sleep(TICK_SECONDS)
        for instance in flushes.over(fleet.by_id.values(), time.monotonic()):
            await recorder.submit(Flushed(instance))
