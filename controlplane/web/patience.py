"""A connection of the web process: who is at its other end, and how long it may take until it has said what it wants.

uvicorn itself waits for ever, whoever it is, and keeps a head in memory however long it becomes.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controlplane.domain.addresses import peer_host

TOO_LONG = b"the request line and headers are larger than %d bytes"


class Patient(HttpToolsProtocol):
    """Closes a connection on which no whole request head has come for `head_seconds`, or more than `head_bytes` of it.
    Answers take as long as they do."""

    head_seconds: ClassVar[float] = 30.0
    head_bytes: ClassVar[int] = 65_536
    _beside_body: int = 0
    """Bytes of this request since it began, or since some of its body was heard: its head, or what follows its body."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.client is not None:
            self.client = (peer_host(self.client[0]), self.client[1])
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        self._beside_body += len(data)
        super().data_received(data)
        if self._beside_body > self.head_bytes and not self.transport.is_closing():
            said = TOO_LONG % self.head_bytes
            head = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\nconnection: close\r\n"
            self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(said), said))
            self.transport.close()
        at_rest = self.cycle is None or self.cycle.response_complete
        if at_rest and not self.transport.is_closing():
            # uvicorn's own clock for idle connections was stopped by these bytes.
            self._wait_for_head()

    def on_message_begin(self) -> None:
        self._beside_body = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._beside_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._beside_body = 0
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._limit is None:
            self._limit = self.loop.call_later(self.head_seconds, self._give_up)

    def _give_up(self) -> None:
        # A WebSocket is somebody else's from its handshake on, and lasts.
        heir = self.transport.get_protocol()
        if heir is self or not getattr(heir, "handshake_complete", False):
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
