"""uvicorn's HTTP connection, with a short way for what repeats.

A read whose raw bytes were answered before is answered from the memo; a write whose head was read before goes straight
to its handler with the body. Everything else, and everything seen for the first time, takes uvicorn's way to the door.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from controlplane.domain.addresses import peer_host
from controlplane.floodgate import FloodGate
from controlplane.protocol.replies import Reply, text

from .memo import KnownHead, Memo, raw
from .outcome import Outcome, Pending
from .request import Head, Request

REQUEST_SECONDS = 60.0
MAX_HEAD_BYTES = 65_536
HEAD_TOO_LARGE = text(431, f"the request line and headers are larger than {MAX_HEAD_BYTES} bytes", close=True)

# What uvicorn says of broken requests, a few times a minute instead of once for each.
_gate = FloodGate(per_source=3, per_kind=3, window_seconds=60)
http_log = logging.getLogger("controlplane.bootstrap.http")
http_log.addFilter(lambda record: _gate.admit("", str(record.msg), now=time.monotonic()).admitted)

numbers = itertools.count(1)


class Connection(HttpToolsProtocol):
    """One client connection of a listener. Times are monotonic seconds."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        *,
        memo: Memo,
        port: int,
        closed: Callable[[Connection], None],
        opened: Callable[[Connection], None],
    ) -> None:
        super().__init__(config, server_state, {})
        self.app_state = {"connection": self}
        # Never used again, unlike an id(): it names this connection as a poller of /health.
        self.number = next(numbers)
        self.memo = memo
        self.port = port
        self.active_at = time.monotonic()
        self.began_at: float | None = None
        self.polled: set[int] = set()
        self._opened = opened
        self._closed = closed
        # The read that began the present request, when it began at a boundary.
        self._data: bytes | None = None
        self._pending = False
        self._backlog: list[bytes] = []
        self._head_bytes = 0
        self._in_head = False
        self.logger = http_log

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.client is not None:
            self.client = (peer_host(self.client[0]), self.client[1])
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed(self)
        self._backlog.clear()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        # What points back at this connection goes now, so that it is freed at once: left to the collector, thousands of
        # short connections a second become pauses for everybody.
        self.app_state, self.headers, self.scope, self.cycle = {}, [], None, None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        now = self.active_at = time.monotonic()
        if self._pending:
            # Pipelined behind a write that is being stored.
            self._backlog.append(data)
            self.flow.pause_reading()
            return
        self._data = None
        if self.began_at is None and (self.cycle is None or self.cycle.response_complete):
            memo = self.memo
            if now < memo.deadline() and not self.flow.write_paused:
                answer = memo.answers.get(data)
                if answer is not None:
                    memo.tally.lookups += 1
                    self.transport.write(answer)
                    return
                if data[:1] == b"P" or data[:5] == b"GET /":
                    head, _, body = data.partition(b"\r\n\r\n")
                    known = memo.heads.get(head)
                    if known is not None and len(body) == known.length:
                        self._begin(known, body)
                        return
            self._data = data
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._write(HEAD_TOO_LARGE)

    def _begin(self, known: KnownHead, body: bytes) -> None:
        outcome: Outcome = known.begin(Request(known.head, self), body)
        if isinstance(outcome, Reply):
            self._write(outcome, close=known.close)
            return
        self._pending = True
        outcome.future.add_done_callback(lambda _: self._finish(outcome, known.close))

    def _finish(self, outcome: Pending, close: bool) -> None:
        self._pending = False
        if self.transport.is_closing():
            return
        if outcome.future.cancelled() or time.monotonic() >= self.memo.deadline():
            self.hang_up()
            return
        self._write(outcome.reply(), close=close)
        if self._backlog:
            waiting, self._backlog = b"".join(self._backlog), []
            self.flow.resume_reading()
            self.data_received(waiting)

    def _write(self, reply: Reply, *, close: bool = False) -> None:
        close = close or reply.close
        self.transport.write(raw(reply, close=close))
        if close:
            self.transport.close()

    def on_message_begin(self) -> None:
        self.began_at = self.active_at
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.began_at = None
        super().on_message_complete()

    def remember(self, reply: Reply) -> Callable[[], None] | None:
        """Answer these raw bytes with this reply from now on; what the owner must call to take it back."""
        data = self._data
        if data is None or data[-4:] != b"\r\n\r\n" or not self.memo.remember(data, raw(reply)):
            return None
        return partial(self.memo.drop, data)

    def learn(self, head: Head, length: int, begin: Callable[[Any, bytes], Any]) -> None:
        """Hand bodies behind this head straight to `begin` from now on."""
        data = self._data
        if data is None:
            return
        raw_head, _, body = data.partition(b"\r\n\r\n")
        if len(body) == length:
            self.memo.learn(raw_head, head, length, begin)

    def timeout_keep_alive_handler(self) -> None:
        # What goes the short way does not pass through uvicorn, so its clock has not seen it.
        idle = time.monotonic() - self.active_at
        if idle < self.timeout_keep_alive or self._pending:
            self.timeout_keep_alive_task = self.loop.call_later(
                max(self.timeout_keep_alive - idle, 1.0), self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def is_stuck(self, now: float) -> bool:
        """A request that began long ago and is still not whole; a connection idle past its time."""
        if self.began_at is not None:
            return now - self.began_at > REQUEST_SECONDS
        return self.is_idle and now - self.active_at > self.timeout_keep_alive

    @property
    def is_idle(self) -> bool:
        at_rest = self.cycle is None or self.cycle.response_complete
        return at_rest and self.began_at is None and not self._pending

    def shutdown(self) -> None:
        """Close when what is under way is answered."""
        if not self._pending:
            super().shutdown()
        else:
            self.loop.call_later(0.02, self.shutdown)

    def hang_up(self) -> None:
        """Close without an answer."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        for cycle, _ in self.pipeline:
            cycle.disconnected = True
        self.pipeline.clear()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()


async def send_reply(send: Any, reply: Reply, *, head_only: bool) -> None:
    """The whole answer in one write. What uvicorn's own `send` does in two, without checking our headers again."""
    cycle: RequestResponseCycle = send.__self__
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    close = not cycle.keep_alive or reply.close or reply.status == 413
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(raw(reply, close=close, head_only=head_only))
    cycle.message_event.set()
    if close:
        cycle.transport.close()
    cycle.on_response()
