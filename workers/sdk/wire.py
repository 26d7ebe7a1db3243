"""Requests to servers over pooled keep-alive connections, each ended within its bound by one clock from connect to last byte.

Why not a general HTTP client: these calls stand in a decode's way to its first token. Here one costs a tenth of what it does
through httpx or requests, no byte of a slow peer prolongs it, and nothing follows redirects, proxies or encodings.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from . import http11
from .connecting import Connector
from .errors import BrokenOff, Closed, Garbled, Overloaded, TimedOut, Unreachable
from .exchange import Answer, Ask, Silent, exchange
from .line import Ended, Line, TooLong
from .places import Place

MOST_WAITING = 1000
# SGLang's KV server keeps an idle connection for 75 s, ours for 90, its engine-info server for 5: the last one costs a retry.
IDLE_SECONDS = 60.0


class _Pool:
    """The connections to one server."""

    def __init__(self, most: int) -> None:
        self.gate = asyncio.Semaphore(most)
        self.idle: list[tuple[float, Line]] = []
        self.users = 0

    def take(self) -> Line | None:
        now = time.monotonic()
        while self.idle:
            since, line = self.idle.pop()
            if not line.stale and now - since < IDLE_SECONDS:
                return line
            line.close()
        return None


class Wire:
    """Belongs to one event loop. `connections`: at most so many to one server at once; whoever comes then waits his turn."""

    def __init__(self, *, connections: int = 8, connect_seconds: float = 2.0, most_places: int = 1024) -> None:
        self._connections, self._connect_seconds, self._most_places = connections, connect_seconds, most_places
        self._pools: dict[tuple[str, str, int], _Pool] = {}
        self._connector = Connector()
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def ask(self, place: Place, ask: Ask, *, within: float) -> Answer:
        """The answer, whatever its status, within so many seconds.

        Raises Unreachable (TimedOut, BrokenOff), Garbled, TooLarge, Overloaded.
        """
        if self._closed:
            raise Closed("this client was closed; make another one")
        try:
            async with asyncio.timeout(within):
                return await self._ask(place, ask)
        except TimeoutError:
            raise TimedOut(str(place), f"no whole answer to {ask.shown} within {within:g} s") from None

    async def aclose(self) -> None:
        """Close every connection; what is on its way ends as broken off."""
        self._closed = True
        for pool in self._pools.values():
            for _, line in pool.idle:
                line.close()
            pool.idle.clear()

    async def _ask(self, place: Place, ask: Ask) -> Answer:
        async with self._turn(place) as pool:
            kept = None if ask.fresh else pool.take()
            if kept is not None:
                try:
                    return await self._exchange(place, ask, kept, pool)
                except BrokenOff:
                    # An idle connection that its server closed just now: nothing was answered, so ask once more.
                    if kept.heard:
                        raise
            return await self._exchange(place, ask, await self._connect(place), pool)

    @asynccontextmanager
    async def _turn(self, place: Place) -> AsyncIterator[_Pool]:
        key = (place.scheme, place.host, place.port)
        pool = self._pools.get(key)
        if pool is None:
            self._forget_some()
            pool = self._pools[key] = _Pool(self._connections)
        if pool.users >= MOST_WAITING + self._connections:
            raise Overloaded(f"{MOST_WAITING} requests wait for {place} already")
        pool.users += 1
        try:
            async with pool.gate:
                yield pool
        finally:
            pool.users -= 1

    def _forget_some(self) -> None:
        """Requests name servers, so there may be any number of them over time."""
        if len(self._pools) < self._most_places:
            return
        for key in [key for key, pool in self._pools.items() if not pool.users][: self._most_places // 4 + 1]:
            for _, line in self._pools.pop(key).idle:
                line.close()
        if len(self._pools) >= self._most_places:
            raise Overloaded(f"{self._most_places} servers are being asked at once")

    async def _connect(self, place: Place) -> Line:
        tls = await self._tls_context() if place.scheme == "https" else None
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._connector.connect(place, tls)
        except TimeoutError:
            raise TimedOut(str(place), f"no connection within {self._connect_seconds:g} s") from None
        except ConnectionRefusedError:
            raise Unreachable(str(place), "the connection was refused: nobody listens there") from None
        except socket.gaierror as problem:
            raise Unreachable(str(place), f"its name cannot be resolved ({problem.strerror})") from None
        except ssl.SSLError as problem:
            raise Unreachable(str(place), f"TLS failed ({problem.reason or problem})") from None
        except OSError as problem:
            raise Unreachable(str(place), f"no connection ({problem})") from None

    async def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            # It reads every certificate of the system.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls

    async def _exchange(self, place: Place, ask: Ask, line: Line, pool: _Pool) -> Answer:
        keeps = False
        try:
            line.begin()
            answer, keeps = await exchange(place, ask, line)
            keeps = keeps and not line.stale and not self._closed
            return answer
        except (Ended, ConnectionError):
            raise BrokenOff(str(place), f"the connection ended before the answer to {ask.shown}") from None
        except Silent:
            raise TimedOut(str(place), f"silent for {ask.stall:g} s in its answer to {ask.shown}") from None
        except http11.Unreadable as problem:
            raise Garbled(str(place), str(problem)) from None
        except TooLong:
            raise Garbled(str(place), f"a head of more than {http11.HEAD_LIMIT} bytes") from None
        finally:
            if keeps:
                pool.idle.append((time.monotonic(), line))
            else:
                line.close()
