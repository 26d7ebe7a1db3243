"""The plugin's own thread: what callers hand over is done there, in order, so that no thread of the engine ever waits.

Everything is bounded, and nothing is raised. A process that was forked begins anew: threads and connections are its parent's.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import multiprocessing.util
import os
import queue
import threading
import time
from collections.abc import Callable

from workers.sdk import Client, WorkerError

log = logging.getLogger(__name__)

MOST_WAITING = 2000
LAST_SECONDS = 0.6
PAUSE_SECONDS = 5.0

Work = Callable[[Client], None]


class Background:
    """`make` makes the client, at the first work; `do` hands work over. Started by the first of it."""

    def __init__(self, make: Callable[[], Client], *, most: int = MOST_WAITING) -> None:
        self._make, self._most = make, most
        self.dropped = 0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: queue.Queue[tuple[Work, str]] = queue.Queue(self._most)
        self._thread: threading.Thread | None = None
        self._said: set[str] = set()
        self._closed = False
        self.client: Client | None = None

    def do(self, work: Work, what: str) -> bool:
        """Never waits. False when too much waits already (it is dropped and counted), or this process ends."""
        if self._closed:
            return False
        try:
            if self._thread is None:
                self._start()
            self._waiting.put_nowait((work, what))
        except (queue.Full, RuntimeError):
            # Too much, or no thread to be had.
            self.dropped += 1
            return False
        return True

    def close(self) -> None:
        """What was not told within a second is not told: an engine that ends does not wait for us."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        client, self.client = self.client, None
        if client is None:
            return
        try:
            client.close(within=LAST_SECONDS)
        except Exception:
            log.debug("closing the client failed", exc_info=True)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="pd-plugin", daemon=True)
                thread.start()
                self._thread = thread
                if multiprocessing.parent_process() is None:
                    atexit.register(self.close)
                else:
                    # Children of multiprocessing end without atexit.
                    multiprocessing.util.Finalize(None, self.close, exitpriority=10)

    def _run(self) -> None:
        waiting = self._waiting
        while True:
            work, what = waiting.get()
            if self._closed:
                return
            try:
                work(self._ready())
            except WorkerError as problem:
                self.say(f"{what}: {problem.sentence}")
            except Exception:
                log.exception("%s failed in the control plane's plugin; serving goes on", what)

    def _ready(self) -> Client:
        while self.client is None:
            try:
                self.client = self._make()
            except Exception:
                # No thread to be had, no descriptors: neither is for ever.
                log.exception("the control plane's client cannot be made; it is tried again")
                time.sleep(PAUSE_SECONDS)
        return self.client

    def say(self, sentence: str) -> None:
        """Each sentence once a process."""
        if sentence not in self._said and len(self._said) < 1000:
            self._said.add(sentence)
            log.error("%s", sentence)
