"""A client of the live stream as it should be: it connects again, resumes, begins anew when told, and misses nothing.

It also keeps what it has shown at every position, so that a test can compare that with what was committed.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from controlplane.domain import fleetstate

FINAL = (4400, 4401, 4403, 4404)
"""Connecting again in the same way would not help. After every other end it is right."""

PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
GENEROUS = 60.0


class Refused(Exception):
    """The server closed with a code after which a client gives up."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


class Lost(Exception):
    """A message is missing, or nothing came for too long."""


class Reader:
    """Follows `/ws/fleet`. `state` is the fleet at `cursor`."""

    def __init__(self, url: str, *, headers: dict[str, str], instance: str = "", after: str = "") -> None:
        self.url = url
        self._headers = headers
        self._instance = instance
        self.cursor = after
        self.ledger = ""
        self.revision = -1
        self.state: dict[str, Any] = {}
        self.shown: list[tuple[str, dict[str, Any]]] = []
        self.kinds: list[str] = []
        self.whys: list[str] = []
        self.connections = 0
        self.codes: list[int] = []
        self._sections: dict[str, Any] = {}
        self._moved = asyncio.Condition()
        self._socket: ClientConnection | None = None

    async def run(self) -> None:
        """Until cancelled. Raises Refused."""
        pause = PAUSE_SECONDS
        while True:
            heard = len(self.kinds)
            with contextlib.suppress(OSError, TimeoutError, InvalidHandshake, Lost):
                await self._once()
            # Whoever was served begins again with a short pause.
            pause = PAUSE_SECONDS if len(self.kinds) > heard else min(2 * pause, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def until(self, true: Callable[["Reader"], bool], *, within: float = GENEROUS) -> None:
        """Until it holds, asked after every message."""
        async with asyncio.timeout(within):
            async with self._moved:
                await self._moved.wait_for(lambda: true(self))

    async def upto(self, revision: int, *, ledger: str | None = None, within: float = GENEROUS) -> None:
        await self.until(
            lambda reader: reader.revision >= revision and (ledger is None or reader.ledger == ledger), within=within
        )

    def cut(self) -> None:
        """As a network does: no close, no word."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def _once(self) -> None:
        query = {"after": self.cursor, "instance": self._instance}
        said = urlencode({name: value for name, value in query.items() if value})
        async with connect(
            f"{self.url}?{said}", additional_headers=self._headers, max_size=None, open_timeout=20, ping_interval=None
        ) as self._socket:
            self.connections += 1
            try:
                await self._read(self._socket)
            except ConnectionClosed as closed:
                code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
                self.codes.append(code)
                if code in FINAL:
                    raise Refused(code, reason) from None

    async def _read(self, socket: ClientConnection) -> None:
        seq, silence = 0, 30.0
        while True:
            async with asyncio.timeout(silence):
                message = json.loads(await socket.recv())
            seq += 1
            if message["seq"] != seq:
                raise Lost(f"message {seq} is missing")
            if message["type"] == "hello":
                silence = 3 * message["beat_seconds"]
            async with self._moved:
                self.take(message)
                self._moved.notify_all()

    def take(self, message: dict[str, Any]) -> None:
        """Go on by one message. Raises Lost when something is missing before it."""
        if message["type"] == "snapshot":
            self._merge(message)
        elif message["type"] != "hello":
            if message["from"] != self.revision:
                raise Lost(f"what happened between {self.revision} and {message['from']} is missing")
            self._show(message, fleetstate.follow(self.state, happened(message.get("events", []))))
        self.kinds.append(message["type"])

    def _merge(self, message: dict[str, Any]) -> None:
        if message["part"] == 1:
            self._sections = {}
            self.whys.append(message["why"])
        for section, content in message["state"].items():
            self._sections[section] = {**self._sections.get(section, {}), **content}
        # Half a snapshot is shown to nobody.
        if message["part"] == message["parts"]:
            self._show(message, self._sections)

    def _show(self, message: dict[str, Any], state: dict[str, Any]) -> None:
        self.state, self.cursor = state, message["cursor"]
        self.ledger, self.revision = message["ledger"], message["to"]
        self.shown.append((self.cursor, state))


def happened(events: Iterable[dict[str, Any]]) -> Iterator[Any]:
    """Events from JSON as the domain takes them."""
    return (SimpleNamespace(kind=event["kind"], instance=event["instance"], data=event["data"]) for event in events)


@contextlib.asynccontextmanager
async def reading(*readers: Reader):
    """They run while the block does; one that was refused says so at the end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reader.run()) for reader in readers]
        yield
        for task in tasks:
            task.cancel()
