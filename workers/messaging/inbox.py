"""The PULL socket of a rank: messages are read as values, and what cannot be read is counted and dropped.

The queue is ZeroMQ's own, one of `MAX_MESSAGES` for each peer: when this side does not keep up, its peers are told by
`Congested` instead of losing messages, and one that floods takes no other's place.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import zmq

from controlplane.domain.errors import Refused
from workers.messaging.errors import BadFrames, Closed, MessagingError
from workers.messaging.requests import MAX_FRAMES, Frames
from workers.messaging.sockets import bind, new_context, new_socket

log = logging.getLogger(__name__)

Message = TypeVar("Message")
POLL_MS = 100
WARN_EVERY_SECONDS = 10.0


class Inbox(Generic[Message]):
    """Binds at once; `receive` belongs to one thread, the one that closes it too.

    `read`: `read_request` for a prefill rank, `read_reply` for a decode rank. `refused` counts what was dropped.
    """

    def __init__(self, host: str, port: int, read: Callable[[Frames], Message]) -> None:
        self._read = read
        self._context = new_context()
        self._closed = False
        self._warned = float("-inf")
        self.refused = 0
        self._socket = new_socket(self._context, zmq.PULL, ipv6=":" in host)
        try:
            self.endpoint = bind(self._socket, host, port)
        except Refused:
            self.close()
            raise
        except zmq.ZMQError as why:
            self.close()
            raise MessagingError(f"cannot listen on {host} port {port or 'any'}: {why}") from None

    def receive(self, timeout: float) -> Message | None:
        """The next message that can be read, or None when none came within `timeout` seconds. Raises Closed."""
        deadline = time.monotonic() + timeout
        while True:
            if self._closed:
                raise Closed(f"the inbox at {self.endpoint} is closed")
            left_ms = max(0, int((deadline - time.monotonic()) * 1000))
            if not self._socket.poll(left_ms):
                return None
            found = self._take()
            if found is not None or time.monotonic() > deadline:
                return found

    def close(self) -> None:
        self._closed = True
        self._context.destroy(linger=0)

    def _take(self) -> Message | None:
        frames: list[bytes] = []
        try:
            while len(frames) <= MAX_FRAMES:
                frames.append(self._socket.recv(zmq.NOBLOCK))
                if not self._socket.getsockopt(zmq.RCVMORE):
                    return self._read(frames)
            while self._socket.getsockopt(zmq.RCVMORE):
                self._socket.recv(zmq.NOBLOCK)
            raise BadFrames(f"a message has more than {MAX_FRAMES} frames")
        except zmq.Again:
            return None
        except BadFrames as why:
            self._refuse(str(why))
            return None

    def _refuse(self, why: str) -> None:
        self.refused += 1
        if time.monotonic() - self._warned > WARN_EVERY_SECONDS:
            self._warned = time.monotonic()
            log.warning("dropped a message that arrived at %s: %s (%d in all)", self.endpoint, why, self.refused)


class Listener(Generic[Message]):
    """A daemon thread that hands each message to `handle`, and calls `idle` several times a second.

    An error in `handle` is logged and costs that message only. `stop` returns within a second or two.
    """

    def __init__(self, inbox: Inbox[Message], handle: Callable[[Message], None], idle: Callable[[], None]) -> None:
        self._inbox, self._handle, self._idle = inbox, handle, idle
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"inbox {inbox.endpoint}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(5)

    def _run(self) -> None:
        idle_at = time.monotonic()
        while not self._stopping.is_set():
            message = self._inbox.receive(POLL_MS / 1000)
            if message is not None:
                self._try(lambda message=message: self._handle(message))  # type: ignore[misc]
            if time.monotonic() >= idle_at:
                idle_at = time.monotonic() + POLL_MS / 1000
                self._try(self._idle)
        self._inbox.close()

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            log.exception("a message at %s could not be handled", self._inbox.endpoint)
