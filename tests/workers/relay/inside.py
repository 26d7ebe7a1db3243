"""A relay in this process, without a control plane: what it answers is asked of its door, or over a socket."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.protocol.replies import Reply
from tests.wire.client import ALL, at, rank
from workers.relay.door import Door
from workers.relay.http import Request
from workers.relay.journal import Journal
from workers.relay.keeping import Keeping
from workers.relay.link import Link
from workers.relay.networks import Admission
from workers.relay.upkeep import Upkeep
from workers.sdk.servers import ControlPlane

NOBODY = "127.0.0.1:1"
HERE = ("127.0.0.1", 8998)


@dataclass
class Inside:
    """Made by `open`; closed by `close`, or dropped as it is (`drop`), as by a kill."""

    directory: Path
    control_plane: str = NOBODY
    token: str | None = None
    keeping: Keeping = field(init=False)
    door: Door = field(init=False)
    now: float | None = 1_000_000.0
    connection: int = 1

    def open(self, **options: Any) -> Inside:
        link = Link(ControlPlane.at(self.control_plane, instance="p", token=self.token), clock=self.clock)
        self.keeping = Keeping("p", Journal(self.directory), link, clock=self.clock, **options)
        self.upkeep = Upkeep(self.keeping, worker="relay/test")
        self.door = Door(self.keeping, self.upkeep, Admission(()), worker="relay/test")
        return self

    def clock(self) -> float:
        """`now` stands still until a test moves it; None: it is the real one."""
        return time.time() if self.now is None else self.now

    async def close(self) -> None:
        await self.keeping.link.aclose()
        self.keeping.journal.close()

    async def ask(
        self,
        method: str,
        path: str,
        query: str = "",
        js: Any = None,
        *,
        peer: tuple[str, int] = ("127.0.0.1", 1),
        body: bytes | None = None,
        **headers: str,
    ) -> Reply:
        told = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        sent = body if body is not None else (json.dumps(js).encode() if js is not None else b"")
        return await self.door(Request(method, path, query.encode(), told, sent, self.connection, peer, HERE))

    def put(self, token: str | None = None, **facts: Any) -> Awaitable[Reply]:
        more = {"x_pd_generation": token} if token is not None else {}
        return self.ask("PUT", "/route", js=rank(**{"enable_kv_cache_sharding": False, **facts}), **more)

    async def topology(self, **headers: str) -> Reply:
        return await self.ask("GET", "/route", words(ALL), **headers)

    async def slot(self, **slot: int) -> Reply:
        return await self.ask("GET", "/route", words(at(**slot)))

    async def health(self, connection: int = 1) -> int:
        self.connection = connection
        return (await self.ask("GET", "/health")).status

    async def bind(self, room: int, dp: int) -> int:
        return (await self.ask("POST", "/register_dp_rank", js={"bootstrap_room": room, "dp_rank": dp})).status

    async def find(self, *rooms: int) -> Any:
        return json.loads((await self.ask("POST", "/query_dp_ranks", js={"bootstrap_rooms": list(rooms)})).body)


def words(query: dict[str, int]) -> str:
    return "&".join(f"{name}={value}" for name, value in query.items())


Make = Callable[..., Inside]
