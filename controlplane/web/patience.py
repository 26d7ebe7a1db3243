"""How long a connection may take until it has said what it wants. uvicorn itself waits for ever, whoever it is."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Patient(HttpToolsProtocol):
    """Closes a connection on which no whole request head has come for `head_seconds`. Answers take as long as they do."""

    head_seconds: ClassVar[float] = 30.0
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        at_rest = self.cycle is None or self.cycle.response_complete
        if at_rest and not self.transport.is_closing():
            # uvicorn's own clock for idle connections was stopped by these bytes.
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._limit is None:
            self._limit = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
