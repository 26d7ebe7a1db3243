"""Hands messages to several peers at once, so that one that is silent costs its own time only, and all of it is bounded."""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from workers.messaging.endpoint import Endpoint
from workers.messaging.errors import Congested, MessagingError
from workers.messaging.outbox import Outbox

THREADS = 16
DELIVERY_SECONDS = 7.0
LINGER_SECONDS = 0.5
MOST_POSTED = 1000
"""Letters that wait for one peer; what comes then is dropped."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message, and what must be said before it on a new connection."""

    to: Endpoint
    frames: Sequence[bytes]
    opening: Sequence[bytes] | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """By endpoint: what went wrong, and the connection that took the letters, as `Outbox.send` numbers it. `unsure`: those of
    `failed` that may be told all the same; the others never will be."""

    failed: dict[Endpoint, MessagingError] = field(default_factory=dict)
    lines: dict[Endpoint, int] = field(default_factory=dict)
    unsure: set[Endpoint] = field(default_factory=set)

    def add(self, to: Endpoint, found: MessagingError | int) -> None:
        if isinstance(found, MessagingError):
            self.failed[to] = found
        else:
            self.lines[to] = found


class Courier:
    """Owns an outbox and a few threads: some for who waits, others for what is posted."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="courier")
        self._posting = concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="post")
        self._lock = threading.Lock()
        self._posted: dict[Endpoint, deque[Letter]] = {}

    def deliver(self, letters: Sequence[Letter], *, timeout: float = DELIVERY_SECONDS) -> Delivered:
        """Nothing failed when all were handed over. Letters to one endpoint keep their order."""
        delivered = Delivered()
        by_peer: dict[Endpoint, list[Letter]] = {}
        for letter in letters:
            by_peer.setdefault(letter.to, []).append(letter)
        if len(by_peer) == 1:
            for to, own in by_peer.items():
                delivered.add(to, self._try(to, own))
            return delivered
        tasks = {to: self._threads.submit(self._try, to, own) for to, own in by_peer.items()}
        concurrent.futures.wait(tasks.values(), timeout=timeout)
        for to, task in tasks.items():
            if not task.done():
                if not task.cancel():
                    delivered.unsure.add(to)
                delivered.add(to, Congested(f"the message to {to} waited for more than {timeout:g} s behind others"))
            else:
                delivered.add(to, task.result())
        return delivered

    def post(self, letters: Sequence[Letter]) -> None:
        """Best effort, without waiting, in order for each peer: what cannot be handed over is dropped."""
        for letter in letters:
            with self._lock:
                waiting = self._posted.setdefault(letter.to, deque())
                is_served = bool(waiting)
                if len(waiting) < MOST_POSTED:
                    waiting.append(letter)
            if not is_served:
                self._posting.submit(self._post, letter.to)

    def close(self) -> None:
        for threads in (self._threads, self._posting):
            threads.shutdown(wait=False, cancel_futures=True)
        self.outbox.close(linger_seconds=LINGER_SECONDS)

    def _post(self, to: Endpoint) -> None:
        """What waits for one peer, on one thread: a silent one keeps no other from being served."""
        waiting = self._posted[to]
        while True:
            self._try(to, [waiting[0]])
            with self._lock:
                waiting.popleft()
                if not waiting:
                    del self._posted[to]
                    return

    def _try(self, to: Endpoint, letters: Sequence[Letter]) -> MessagingError | int:
        line = 0
        try:
            for letter in letters:
                line = self.outbox.send(to, letter.frames, opening=letter.opening)
        except MessagingError as why:
            return why
        return line
