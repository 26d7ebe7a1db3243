"""Beat keeps nothing: at its start everything is sent once, and what is not due yet is left out where rounds are claimed.

So a beat that was killed, moved, or runs twice needs no file, and a task of every hour runs although beat restarts more often.
A clock that is set costs no round: what is due when is counted in time that passes.
"""

from __future__ import annotations

import datetime
import time
from functools import partial
from typing import Any

import structlog
from celery.beat import Scheduler

from controlplane.queries.own_figures import queue_length

log = structlog.get_logger(__name__)

LONG_AGO = datetime.timedelta(days=2)
RETRY_MOST_SECONDS = 2.0
FULL = 1000
"""So many messages that nobody takes are enough: Redis keeps each of them until a worker has looked at it, expired or not."""

LOOK_SECONDS = 5.0
STEP_SECONDS = 1.0
"""A clock that moves by more than this against the time that passes has been set."""


def patient(connection: Any) -> Any:
    """A connection of Celery's that, after an outage of Redis, is back within two seconds, not within thirty."""
    connection.ensure_connection = partial(
        connection.ensure_connection, interval_start=0.5, interval_step=0.5, interval_max=RETRY_MOST_SECONDS
    )
    return connection


class Clock(Scheduler):
    """`CELERY_BEAT_SCHEDULER`."""

    _away = False
    _full = False
    _looked_at = float("-inf")
    _apart: float | None = None
    wall, steady = staticmethod(time.time), staticmethod(time.monotonic)

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        self._follow_the_clock()
        return super().tick(*args, **kwargs)

    def _follow_the_clock(self) -> None:
        """Celery dates everything by the clock: set back by an hour, it would send nothing for an hour."""
        before, self._apart = self._apart, self.wall() - self.steady()
        step = self._apart - before if before is not None else 0.0
        if abs(step) <= STEP_SECONDS:
            return
        log.warning("the clock was set", seconds=round(step, 1))
        for entry in self.schedule.values():
            entry.last_run_at = entry.last_run_at + datetime.timedelta(seconds=step)
        # Made anew at once: in it stands when each is due, by the clock as it was.
        self._heap = None

    def setup_schedule(self) -> None:
        super().setup_schedule()
        for entry in self.schedule.values():
            entry.last_run_at = entry.last_run_at - LONG_AGO

    def _ensure_connected(self) -> Any:
        patient(self.connection)
        return super()._ensure_connected()

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Without the traceback of each message that cannot be sent while Redis is away; nothing while nobody takes any."""
        if self._is_full(time.monotonic()):
            return
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as problem:
            if not self._away:
                log.warning("beat cannot send", task=entry.task, problem=str(problem)[:300])
            self._away = True
        else:
            if self._away:
                log.info("beat sends again")
            self._away = False

    def _is_full(self, now: float) -> bool:
        if now - self._looked_at >= LOOK_SECONDS:
            full, self._looked_at = (queue_length() or 0) >= FULL, now
            if full != self._full:
                log.warning("beat waits: nobody takes what it sent" if full else "beat goes on", messages=FULL)
            self._full = full
        return self._full
