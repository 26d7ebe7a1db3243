"""One TCP or TLS connection of a client: bytes in with a bounded buffer, bytes out with the peer's pace."""

from __future__ import annotations

import asyncio

BUFFER_LIMIT = 256 * 1024


class Ended(Exception):
    """The peer closed, or reset, before what was waited for."""


class TooLong(Exception):
    """What was waited for did not come within its limit of bytes."""


class Line(asyncio.Protocol):
    """Made by `loop.create_connection`. One task reads and one writes at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._over = False
        self._paused = False
        self.heard = 0
        """Bytes that came since `begin()`."""

    @property
    def stale(self) -> bool:
        """Whether it must not be used for another request: it ended, or somebody spoke without being asked."""
        return self._over or bool(self._buffer) or self._transport is None or self._transport.is_closing()

    def begin(self) -> None:
        """Another request is about to be sent."""
        self.heard = 0

    def write(self, data: bytes) -> None:
        """Raises Ended when it is known to be closed."""
        if self._over or self._transport is None:
            raise Ended
        self._transport.write(data)

    async def drain(self) -> None:
        """Until the peer has taken enough of what was written. Raises Ended."""
        if self._over:
            raise Ended
        if self._drained is not None:
            await self._drained

    async def until(self, mark: bytes, limit: int) -> bytes:
        """Everything up to and with `mark`. Raises Ended, and TooLong when it does not come within `limit` bytes."""
        searched = 0
        while True:
            at = self._buffer.find(mark, max(0, searched - len(mark) + 1))
            if at >= 0:
                return self._take(at + len(mark))
            searched = len(self._buffer)
            if searched > limit:
                raise TooLong
            await self._more()

    async def some(self, most: int) -> bytes:
        """One to `most` bytes; none at the end of the stream."""
        while not self._buffer:
            if self._over:
                return b""
            await self._more(ends=True)
        return self._take(min(most, len(self._buffer)))

    def close(self) -> None:
        """At once: what was not sent yet is dropped."""
        if self._transport is not None:
            self._transport.abort()

    async def _more(self, *, ends: bool = False) -> None:
        if self._over:
            if ends:
                return
            raise Ended
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        if self._paused and len(self._buffer) < BUFFER_LIMIT // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return taken

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the loop calls.
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self.heard += len(data)
        if len(self._buffer) > BUFFER_LIMIT and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._over = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self.resume_writing()
        self._wake()

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
