"""The sockets: one shared listener a wire, one more for every instance with a port of its own, opened and closed live."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
import uvicorn
from uvicorn.server import ServerState

from .connection import Connection
from .door import Door
from .fleet import Fleet, Instance
from .memo import Memo
from .tally import Tally

log = structlog.get_logger()

KEEP_ALIVE_SECONDS = 90
RESERVED_DESCRIPTORS = 128
MOST_PROBES = 1024
BACKLOG = 4096


class PortTaken(Exception):
    """A port that this process must have is held by another."""

    def __init__(self, host: str, port: int, variable: str, why: str) -> None:
        super().__init__(f"port {port} on {host} cannot be opened for {variable}: {why}")
        self.host, self.port, self.variable, self.why = host, port, variable, why


@dataclass(slots=True)
class Listener:
    host: str
    port: int
    memo: Memo
    outsiders: Memo
    door: Door
    server: asyncio.Server
    connections: set[Connection] = field(default_factory=set)


class Listeners:
    """All listeners of the process, and a bound on their connections."""

    def __init__(self, fleet: Fleet, *, host: str, deadline: Any, tally: Tally, limit: int | None = None) -> None:
        self._fleet = fleet
        self._tally = tally
        self._host = host
        self._deadline = deadline
        self._state = ServerState()
        self._listeners: dict[tuple[str, int], Listener] = {}
        self.limit = limit or connection_limit()
        self.connections: set[Connection] = set()
        self.closed_for_room = 0

    async def open(self, kind: str, door: Door, port: int, variable: str, *, host: str | None = None) -> int:
        """Listen for one wire; the port that was opened. Raises PortTaken."""
        host = host or self._host
        config = uvicorn.Config(
            door,
            http=Connection,
            lifespan="off",
            access_log=False,
            log_config=None,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        config.load()
        memo = Memo(self._deadline, self._tally)
        outsiders = Memo(self._deadline, self._tally, keeps_answers=False)
        holder: list[Listener] = []

        def connect() -> Connection:
            listener = holder[0]
            return Connection(
                config,
                self._state,
                memo=memo,
                port=listener.port,
                opened=lambda c: self._opened(listener, c),
                closed=lambda c: self._closed(listener, c),
            )

        loop = asyncio.get_running_loop()
        try:
            if host == "::":
                # asyncio would serve IPv6 alone; the wildcard means everybody.
                both = socket.create_server((host, port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
                server = await loop.create_server(connect, sock=both, backlog=BACKLOG, start_serving=False)
            else:
                server = await loop.create_server(connect, host, port, backlog=BACKLOG, start_serving=False)
        except OSError as problem:
            why = "another process listens there" if problem.errno == errno.EADDRINUSE else problem.strerror
            raise PortTaken(host, port, variable, why or str(problem)) from problem
        opened = server.sockets[0].getsockname()[1]
        listener = Listener(host, opened, memo, outsiders, door, server)
        holder.append(listener)
        self._listeners[kind, opened] = listener
        await server.start_serving()
        return int(opened)

    async def sync_own_ports(self, door: Door, note: Callable[[Instance, str, dict[str, object]], None]) -> None:
        """Open what instances ask for, close what nobody asks for any more. A port that is taken is told, and is not
        fatal: the other instances go on."""
        wanted = set(self._fleet.by_port)
        present = {port for kind, port in self._listeners if kind == "own"}
        for port in present - wanted:
            await self._close(self._listeners.pop(("own", port)))
            log.info("listener_closed", port=port)
        for port in wanted - present:
            instance = self._fleet.by_port[port]
            try:
                await self.open("own", door, port, f"instance {instance.name}")
                log.info("listener_opened", port=port, instance=instance.name)
                note(instance, "listener.opened", {"port": port})
            except PortTaken as taken:
                log.error("listener_failed", port=port, problem=str(taken))
                note(instance, "listener.failed", {"port": port, "why": taken.why})

    def _opened(self, listener: Listener, connection: Connection) -> None:
        gate = listener.door.reading
        if not gate.open and not gate.is_near(connection.client[0] if connection.client else ""):
            connection.memo = listener.outsiders
        listener.connections.add(connection)
        self.connections.add(connection)
        if len(self.connections) > self.limit:
            self._make_room()

    def _closed(self, listener: Listener, connection: Connection) -> None:
        listener.connections.discard(connection)
        self.connections.discard(connection)
        now = time.monotonic()
        for id_ in connection.polled:
            instance = self._fleet.by_id.get(id_)
            if instance is not None:
                instance.pollers.closed(connection.number, now)

    def _make_room(self) -> None:
        """Too many connections: the longest idle go. Closing a few at once keeps this from being done at every accept."""
        idle = sorted((c for c in self.connections if c.is_idle), key=lambda c: c.active_at)
        for connection in idle[: max(1, self.limit // 50)]:
            self.closed_for_room += 1
            connection.transport.close()
            self.connections.discard(connection)

    async def reap_forever(self) -> None:
        """Let go of peers that began a request and never finished it."""
        while True:
            await asyncio.sleep(5)
            now = time.monotonic()
            for connection in [c for c in self.connections if c.is_stuck(now)]:
                connection.hang_up()

    async def close(self, *, abrupt: bool) -> None:
        """Stop listening. `abrupt` hangs up on everybody; otherwise requests under way are finished first."""
        for listener in list(self._listeners.values()):
            await self._close(listener, abrupt=abrupt)
        self._listeners.clear()
        if not abrupt:
            try:
                async with asyncio.timeout(3):
                    while self.connections:
                        await asyncio.sleep(0.02)
            except TimeoutError:
                for connection in list(self.connections):
                    connection.hang_up()

    async def _close(self, listener: Listener, *, abrupt: bool = False) -> None:
        listener.server.close()
        for connection in list(listener.connections):
            if abrupt:
                connection.hang_up()
            else:
                connection.shutdown()


def connection_limit() -> int:
    """What the descriptor limit leaves, with a reserve for the databases and what else asks, and for the probes."""
    soft = _descriptors()
    if soft < 4096:
        log.warning("few_descriptors", limit=soft, advice="raise it with ulimit -n: idle decodes keep connections open")
    return max(64, min(soft, 1_000_000) - RESERVED_DESCRIPTORS - probe_limit())


def probe_limit() -> int:
    """How many probes may be under way at once: a rack that is cut off holds a thousand for a second each."""
    return min(MOST_PROBES, _descriptors() // 8)


def _descriptors() -> int:
    """As many as this process may have; from the first call on it has them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard > soft:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65_536), hard)
        )
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft
