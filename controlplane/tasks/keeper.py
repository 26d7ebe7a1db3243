"""What keeps a worker honest: one whose beat is gone, one of whose rounds never ends, or that hears nothing any more, ends
itself and is started again.

Under threads nothing can end a task from outside (Celery's time limits have no effect there), and an embedded beat that
was killed is started by nobody. A fresh process is the cure for both; rounds survive it (see `turns`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from celery import bootsteps, signals
from celery.worker import state
from celery.worker.consumer import Consumer

from controlplane.queries.own_figures import QUEUE, queue_length

from . import turns
from .beat import patient

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
WEDGED_SECONDS = 300.0
"""No round of ours may take so long, whatever does not answer."""

DEAF_SECONDS = 30.0
"""For so long messages wait, and a worker that has nothing to do takes none: its connection is dead, and nobody told it."""

ASK_SECONDS = 5.0
LEAVE_SECONDS = 15.0
"""So long a worker may take to end in order; one that waits for a dead connection never would."""

EXIT_SOFTWARE = 70
PR_SET_PDEATHSIG = 1

_worker_pid: int | None = None


@dataclass(slots=True)
class Hearing:
    """Whether messages that wait are taken. `taken`: how many there were at the last look."""

    taken: int = -1
    deaf_since: float | None = None
    due: float = 0.0

    def is_lost(self, *, taken: int, idle: bool, waiting: Callable[[], int | None], now: float) -> bool:
        """`waiting` asks Redis, over a connection of its own; None: it does not answer, which is no fault of ours."""
        if now < self.due:
            return False
        self.due = now + ASK_SECONDS
        if taken != self.taken or not idle or not waiting():
            self.taken, self.deaf_since = taken, None
            return False
        self.deaf_since = now if self.deaf_since is None else self.deaf_since
        return now - self.deaf_since >= DEAF_SECONDS


class Keeper(bootsteps.StartStopStep):
    """A thread of the worker that looks every second."""

    requires = {"celery.worker.components:Beat"}

    def __init__(self, worker: Any, **_: Any) -> None:
        global _worker_pid
        _worker_pid = os.getpid()

    def start(self, worker: Any) -> None:
        threading.Thread(target=self._look, args=(worker,), name="keeper", daemon=True).start()

    def _look(self, worker: Any) -> None:
        # It goes on while the worker stops: that waits for rounds, too.
        hearing, leave_at = Hearing(), float("inf")
        while True:
            time.sleep(LOOK_SECONDS)
            now = time.monotonic()
            if now > leave_at:
                os._exit(EXIT_SOFTWARE)
            if state.should_stop is None and hearing.is_lost(
                taken=sum(state.total_count.values()),
                # Whoever takes from other queues alone is not meant.
                idle=not state.reserved_requests and QUEUE in worker.app.amqp.queues.consume_from,
                waiting=queue_length,
                now=now,
            ):
                log.error("messages wait and none arrives: this worker starts anew", seconds=DEAF_SECONDS)
                state.should_stop, leave_at = EXIT_SOFTWARE, now + LEAVE_SECONDS
            if turns.longest_running(time.monotonic()) > WEDGED_SECONDS:
                log.critical("a round never ends: this worker starts anew", seconds=WEDGED_SECONDS)
                # Not in order: whoever waits for that thread waits for ever.
                os._exit(EXIT_SOFTWARE)
            if state.should_stop is None and _is_dead(worker.beat):
                log.error("beat is gone: this worker starts anew", exit=worker.beat.exitcode)
                state.should_stop = EXIT_SOFTWARE


def _is_dead(beat: Any) -> bool:
    # None without -B; without a pid it has not begun.
    return beat is not None and getattr(beat, "pid", None) is not None and not beat.is_alive()


class PatientConsumer(Consumer):
    """`CELERY_WORKER_CONSUMER`: an outage of Redis costs a worker its connection, and nothing else."""

    connection: Any

    def ensure_connected(self, conn: Any) -> Any:
        return super().ensure_connected(patient(conn))

    def on_connection_error_after_connected(self, exc: Any) -> None:
        # To close a connection is also to put back, over it, what was not acknowledged. Celery 5.7 lets go of it before
        # that, and then the worker ends of it. What is not put back has expired before anybody could want it.
        for channel in getattr(getattr(self.connection, "_transport", None), "channels", None) or ():
            channel.do_restore = False
        try:
            super().on_connection_error_after_connected(exc)
        except Exception as problem:
            self.connection = None
            log.warning("broken connection not closed in order", problem=str(problem)[:300])

    def call_soon_ack(self, p: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Acknowledge or reject. What came over a connection that is gone cannot be, and nobody may end of that."""

        def forgiving(*given: Any, **named: Any) -> None:
            try:
                p(*given, **named)
            except Exception as problem:
                log.info("message not acknowledged", problem=f"{type(problem).__name__}: {problem}"[:300])

        return super().call_soon_ack(forgiving, *args, **kwargs)


@signals.beat_embedded_init.connect
def _end_with_the_worker(**_: Any) -> None:
    """A beat whose worker was killed would go on sending, and nobody would end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The worker may have died before the kernel was asked.
    if _worker_pid is not None and os.getppid() != _worker_pid:
        os._exit(EXIT_SOFTWARE)
