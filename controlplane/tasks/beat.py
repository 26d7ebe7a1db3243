"""Beat keeps nothing: at its start everything is sent once, and what is not due yet is left out where rounds are claimed.

So a beat that was killed, moved, or runs twice needs no file, and a task of every hour runs although beat restarts more often.
"""

from __future__ import annotations

import datetime
from functools import partial
from typing import Any

import structlog
from celery.beat import Scheduler

log = structlog.get_logger(__name__)

LONG_AGO = datetime.timedelta(days=2)
RETRY_MOST_SECONDS = 2.0


def patient(connection: Any) -> Any:
    """A connection of Celery's that, after an outage of Redis, is back within two seconds, not within thirty."""
    connection.ensure_connection = partial(
        connection.ensure_connection, interval_start=0.5, interval_step=0.5, interval_max=RETRY_MOST_SECONDS
    )
    return connection


class Clock(Scheduler):
    """`CELERY_BEAT_SCHEDULER`."""

    _away = False

    def setup_schedule(self) -> None:
        super().setup_schedule()
        for entry in self.schedule.values():
            entry.last_run_at = entry.last_run_at - LONG_AGO

    def _ensure_connected(self) -> Any:
        patient(self.connection)
        return super()._ensure_connected()

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Without the traceback of each message that cannot be sent while Redis is away."""
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
