"""uvicorn's HTTP connection with three additions: repeated reads are answered from a memo of raw bytes, slow and idle
peers are let go, and a process that may not answer hangs up."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from controlplane.protocol.replies import Reply

MAX_REQUEST = 1024
MAX_ENTRIES = 65_536
MAX_ANSWER_BYTES = 128 * 2**20
REQUEST_SECONDS = 60.0

HEAD = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b"
STATUS = {status.value: f"{status.value} {status.phrase}".encode() for status in HTTPStatus}


class Memo:
    """Raw request bytes → raw answer bytes, for one listener. Entries belong to an instance, which drops them."""

    def __init__(self, deadline: Callable[[], float]) -> None:
        self.answers: dict[bytes, bytes] = {}
        self.held = 0
        # The monotonic time past which nothing may be answered: the local end of the lease.
        self.deadline = deadline

    def drop(self, request: bytes) -> None:
        answer = self.answers.pop(request, None)
        if answer is not None:
            self.held -= len(answer)


class Connection(HttpToolsProtocol):
    """One client connection of a listener."""

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
        self.memo = memo
        self.port = port
        self.active_at = 0.0
        self.began_at: float | None = None
        self._opened = opened
        self._closed = closed
        self._repeatable: bytes | None = None
        self.polled: set[int] = set()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.active_at = time.monotonic()
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.active_at = now
        self._repeatable = None
        if self.began_at is None and (self.cycle is None or self.cycle.response_complete):
            answer = self.memo.answers.get(data)
            if answer is not None and now < self.memo.deadline() and not self.flow.write_paused:
                self.transport.write(answer)
                return
            if data[:4] == b"GET " and data[-4:] == b"\r\n\r\n" and len(data) <= MAX_REQUEST:
                self._repeatable = data
        super().data_received(data)

    def on_message_begin(self) -> None:
        self.began_at = self.active_at
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self.began_at = None
        super().on_message_complete()

    def remember(self, reply: Reply) -> tuple[Memo, bytes] | None:
        """Answer these raw bytes with this reply from now on; what the owner must keep to take it back."""
        request = self._repeatable
        if request is None or self.memo.held > MAX_ANSWER_BYTES or len(self.memo.answers) >= MAX_ENTRIES:
            return None
        # One request in one read, kept alive, nothing after it.
        if request.count(b"\r\n\r\n") != 1 or b" HTTP/1.1\r\n" not in request or b"onnection: close" in request.lower():
            return None
        self.memo.drop(request)
        answer = HEAD % (b"200 OK", reply.content_type, len(reply.body), b"", reply.body)
        self.memo.answers[request] = answer
        self.memo.held += len(answer)
        return self.memo, request

    def timeout_keep_alive_handler(self) -> None:
        # Answers from the memo do not pass through uvicorn, so its clock has not seen them.
        idle = time.monotonic() - self.active_at
        if idle < self.timeout_keep_alive:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive - idle, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def is_stuck(self, now: float) -> bool:
        """A request that began long ago and is still not whole; a connection that never sent one."""
        if self.began_at is not None:
            return now - self.began_at > REQUEST_SECONDS
        return self.cycle is None and now - self.active_at > self.timeout_keep_alive

    @property
    def is_idle(self) -> bool:
        return self.began_at is None and (self.cycle is None or self.cycle.response_complete)

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
    more = (b"connection: close\r\n" if close else b"") + (b"retry-after: 1\r\n" if reply.status == 503 else b"")
    body = b"" if head_only else reply.body
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(HEAD % (STATUS[reply.status], reply.content_type, len(reply.body), more, body))
    cycle.message_event.set()
    if close:
        cycle.transport.close()
    cycle.on_response()
