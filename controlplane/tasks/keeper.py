"""What keeps a worker honest: one whose beat is gone, or one of whose rounds never ends, ends itself and is started again.

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
from typing import Any

import structlog
from celery import bootsteps, signals
from celery.worker import state
from celery.worker.consumer import Consumer

from . import turns
from .beat import patient

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
WEDGED_SECONDS = 300.0
"""No round of ours may take so long, whatever does not answer."""

EXIT_SOFTWARE = 70
PR_SET_PDEATHSIG = 1

_worker_pid: int | None = None


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
        while True:
            time.sleep(LOOK_SECONDS)
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
