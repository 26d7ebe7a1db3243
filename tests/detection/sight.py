"""Everybody who should see a death: the wire, the stream, whoever asks who is routable, and the page. When did each?"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from html import unescape
from typing import Any

import httpx

from tests.crash.wire import TOPOLOGY_PATH, Client, slot_path
from tests.support.stream import Reader

GENEROUS = 60.0
"""Nobody waits longer; what is asked of them is judged afterwards."""

Seen = dict[str, float]


@dataclass(slots=True)
class Sight:
    """One instance of one rank, through everybody's eyes. `seen` and `alive` give seconds since `since`, by who looked."""

    name: str
    kv_port: int
    web: httpx.AsyncClient | None = None
    reader: Reader | None = None
    decode: Client | None = None

    def close(self) -> None:
        if self.decode is not None:
            self.decode.close()

    async def dead(self, since: float) -> Seen:
        """Until everybody sees that the instance has no rank."""
        return await self._all(
            since,
            {
                "/health": self._health(503),
                "look-up": self._look_up(lambda answer: answer.status == 503),
                "stream": self._streamed(lambda launch: not launch["complete"], otherwise=True),
                "routable": self._routable(False),
                "page": self._page("/health answers 503"),
            },
        )

    async def alive(self, since: float, port: int) -> Seen:
        """Until everybody sees the rank at this port, and nothing else."""
        rows = {"0.0.0.0": port}
        return await self._all(
            since,
            {
                "/health": self._health(200),
                "look-up": self._look_up(lambda answer: answer.status == 200 and answer.json()["rank_port"] == port),
                "stream": self._streamed(
                    lambda launch: launch["complete"] and {s: row["port"] for s, row in launch["rows"].items()} == rows
                ),
                "routable": self._routable(True),
                "page": self._page("/health answers 200"),
            },
        )

    async def _all(self, since: float, looks: dict[str, Awaitable[None] | None]) -> Seen:
        async def timed(look: Awaitable[None]) -> float:
            await look
            return time.monotonic() - since

        wanted = {who: look for who, look in looks.items() if look is not None}
        async with asyncio.timeout(GENEROUS):
            took = await asyncio.gather(*(timed(look) for look in wanted.values()))
        return dict(zip(wanted, took, strict=True))

    async def _health(self, status: int) -> None:
        """As a decode does, and faster: on one connection that it keeps. A flush waits until whoever polled was told twice."""
        if self.decode is None:
            self.decode = Client(self.kv_port)
        while (await self.decode.ask("GET", "/health", instance=self.name)).status != status:
            await asyncio.sleep(0.02)

    async def _look_up(self, good: Callable[[Any], bool]) -> None:
        async with Client(self.kv_port) as client:
            while not good(await client.ask("GET", slot_path(0, 0), instance=self.name)):
                await asyncio.sleep(0.02)
            await client.ask("GET", TOPOLOGY_PATH, instance=self.name)

    def _streamed(self, good: Callable[[dict[str, Any]], bool], *, otherwise: bool = False) -> Awaitable[None] | None:
        """`otherwise`: what it means that there is no current launch."""
        if self.reader is None:
            return None

        def holds(reader: Reader) -> bool:
            launches = reader.state["instances"][self.name]["launches"].values()
            current = [launch for launch in launches if launch["role"] == "current"]
            return good(current[0]) if current else otherwise

        return self.reader.until(holds, within=GENEROUS)

    def _routable(self, wanted: bool) -> Awaitable[None] | None:
        return None if self.web is None else self._asked_routable(self.web, wanted)

    async def _asked_routable(self, web: httpx.AsyncClient, wanted: bool) -> None:
        while True:
            answer = await web.get("/api/v1/explain/routable", params={"instance": self.name})
            assert answer.status_code == 200, answer.text
            (item,) = answer.json()["items"]
            if item["routable"] is wanted:
                return
            await asyncio.sleep(0.1)

    def _page(self, words: str) -> Awaitable[None] | None:
        return None if self.web is None else self._shown(self.web, words)

    async def _shown(self, web: httpx.AsyncClient, words: str) -> None:
        while words not in text_of((await web.get(f"/instances/{self.name}/")).text):
            await asyncio.sleep(0.2)


def text_of(page: str) -> str:
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)).split())


def shown(took: list[Seen]) -> str:
    """For a report: by who looked, the median and the slowest."""
    return json.dumps(
        {
            who: f"median {sorted(seen[who] for seen in took)[len(took) // 2]:.2f} s,"
            f" slowest {max(seen[who] for seen in took):.2f} s"
            for who in took[0]
        }
    )
