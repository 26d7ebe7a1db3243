"""Clients that never rest: each writes to one process of several, and notes who acknowledged what, and when."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field

from tests.crash.wire import Client, Unanswered, route_body


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One write that a process said OK to; monotonic times of this client."""

    by: int
    sent_at: float
    at: float
    room: int | None = None
    port: int | None = None


@dataclass(slots=True)
class Hammer:
    """`ports` are the KV ports of the processes; what they are called here is their position."""

    ports: list[int]
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> Hammer:
        for by in range(len(self.ports)):
            self._tasks += [asyncio.create_task(self._write(by, rooms)) for rooms in (False, False, True)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.acknowledged.sort(key=lambda each: each.at)

    async def _write(self, by: int, rooms: bool) -> None:
        async with Client(self.ports[by], timeout=30) as client:
            while True:
                number = next(self._numbers)
                sent_at = time.monotonic()
                try:
                    if rooms:
                        body = {"bootstrap_room": number, "dp_rank": 0}
                        answer = await client.ask("POST", "/register_dp_rank", body, instance="hammered")
                    else:
                        # Each write opens or joins a launch of its own instance: facts, events, and no conflict.
                        port = 1024 + number % 60_000
                        body = route_body(ip="203.0.113.77", port=port)
                        answer = await client.ask("PUT", "/route", body, instance=f"hammered-{number % 7}")
                except Unanswered:
                    await asyncio.sleep(0.01)
                    continue
                if answer.status == 200:
                    said = {"room": number} if rooms else {"port": port}
                    self.acknowledged.append(Acknowledged(by, sent_at, time.monotonic(), **said))
                else:
                    self.refused.append(f"{answer.status} {answer.text[:200]}")
                await asyncio.sleep(0.002)

    async def first_of(self, by: int, *, within: float, since: float = 0.0) -> Acknowledged:
        """The first write sent after `since` that this process acknowledged."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            for each in self.acknowledged:
                if each.by == by and each.sent_at >= since:
                    return each
            await asyncio.sleep(0.01)
        raise AssertionError(f"process {by} acknowledged nothing within {within} s; refused: {self.refused[-3:]}")

    def reigns(self) -> list[int]:
        """Who acknowledged, one after another: [0, 1] is one change of leader."""
        return [by for by, _ in itertools.groupby(each.by for each in self.acknowledged)]
