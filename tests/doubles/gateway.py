"""A small honest gateway: it joins, follows the ledger, acknowledges what it serves from, and reports what it sees.

It sends both legs of a request to engines that its snapshot says may have them, with a room that it mints for the DP
group it chose. When the control plane is away it goes on with the snapshot that it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp import web

from controlplane.domain import fleetstate
from tests.doubles.serving import Server

POLL_SECONDS = 2.0
FAILURES_TO_OPEN = 3


class Away(Exception):
    """The control plane did not answer, or did not want to."""


@dataclass(frozen=True)
class Choice:
    """A DP group of a prefill, and a decode."""

    prefill: str
    dp: int
    decode: str


class Gateway(Server):
    """Knobs, to be set at any time: `deaf` (neither follows nor acknowledges, but goes on serving), `mute` (reports
    nothing), `report_seconds`; `only` (the instances that it may choose; None: all), `own_servers` (host and port of the
    bootstrap servers of prefills that decodes are to ask, instead of the control plane). `state`, `cursor` and
    `acknowledged` are what it serves from."""

    def __init__(
        self,
        name: str,
        control_plane: str,
        token: str,
        *,
        lease_seconds: float = 15.0,
        port: int | None = None,
        only: set[str] | None = None,
    ) -> None:
        super().__init__(port=port)
        self.only, self.own_servers = only, dict[str, tuple[str, int]]()
        self.name, self.base, self.lease_seconds = name, f"{control_plane}/api/v1", lease_seconds
        self.headers = {"authorization": f"Bearer {token}"}
        self.deaf = self.mute = False
        self.report_seconds = 0.2
        self.state: dict[str, Any] = fleetstate.empty()
        self.cursor: str | None = None
        self.acknowledged: tuple[str, int] | None = None
        self.open: Counter[tuple[str, int | None]] = Counter()
        self.rooms: set[int] = set()
        self.problems: list[str] = []
        self.shut: dict[str, str] = {}
        self._failures: Counter[str] = Counter()
        self._outcomes: Counter[tuple[str, str, str]] = Counter()
        self._turn = 0
        self._tasks: list[asyncio.Task[None]] = []

    # What tests ask and do.

    def leave(self) -> None:
        """Say goodbye; it serves on, but nobody counts on it."""
        self.run(self._tell("DELETE", f"gateways/{self.name}"))
        self.deaf = self.mute = True

    def choices(self) -> list[Choice]:
        """Every pair that its snapshot allows it to choose."""
        decodes = [name for name, i in self.state["instances"].items() if self._may(name, i, "decode")]
        return [
            Choice(name, dp, decode)
            for name, instance in sorted(self.state["instances"].items())
            if self._may(name, instance, "prefill")
            for dp in self._groups(instance)
            for decode in sorted(decodes)
        ]

    # What it serves.

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/health", self._health)
        app.router.add_get("/readiness", self._readiness)
        for path in ("/generate", "/v1/completions", "/v1/chat/completions"):
            app.router.add_post(path, self._forward)

    async def begun(self) -> None:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._report())]

    async def ending(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def _readiness(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=200 if self.choices() else 503)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        choices = self.choices()
        if not choices:
            return web.json_response(
                {"error": "no pair"}, status=503, headers={"x-smg-error-code": "server_selection_failed"}
            )
        self._turn += 1
        chosen = choices[self._turn % len(choices)]
        prefill, decode = (self.state["instances"][name] for name in (chosen.prefill, chosen.decode))
        room = self._room(chosen.dp, self._size(prefill))
        here = (prefill["host_alias"] or "127.0.0.1", prefill["own_port"])
        host, port = self.own_servers.get(chosen.prefill, here)
        told = {"bootstrap_host": host, "bootstrap_port": port, "bootstrap_room": room}
        body = {**await request.json(), **told}
        legs: list[tuple[str, int | None]] = [(chosen.prefill, chosen.dp), (chosen.decode, None)]
        self.open.update(legs)
        try:
            urls = [f"{leg['engine_url']}{request.path}" for leg in (prefill, decode)]
            first, second = await asyncio.gather(*(self._leg(url, body) for url in urls))
        finally:
            self.open.subtract(legs)
            self.rooms.discard(room)
        for name, (status, _) in ((chosen.prefill, first), (chosen.decode, second)):
            self._judge(name, status)
        outcome = "ok" if first[0] == second[0] == 200 else "failed"
        self._outcomes[chosen.prefill, chosen.decode, outcome] += 1
        status, answer = first if first[0] != 200 else second
        return web.Response(status=status, body=answer, content_type="application/json")

    async def _leg(self, url: str, body: dict[str, Any]) -> tuple[int, bytes]:
        try:
            async with self._http.post(url, json=body) as answer:
                return answer.status, await answer.read()
        except aiohttp.ClientError:
            return 502, b'{"error": "the engine cannot be reached"}'

    # How it chooses.

    def _may(self, name: str, instance: dict[str, Any], role: str) -> bool:
        if self.only is not None and name not in self.only:
            return False
        ready = instance["role"] == role and instance["intent"] == "enabled" and bool(instance["engine_url"])
        if role == "prefill":
            ready = ready and instance["debt"] is None and self._size(instance) > 0
        return ready and self.shut.get(name) != "open"

    def _size(self, instance: dict[str, Any]) -> int:
        """DP groups of the launch that serves; 0 without one."""
        launches = instance["launches"].values()
        return next((x["topology"][0] for x in launches if x["role"] == "current" and x["complete"]), 0)

    def _groups(self, instance: dict[str, Any]) -> list[int]:
        return [dp for dp in range(self._size(instance)) if str(dp) not in instance["groups"]]

    def _room(self, dp: int, size: int) -> int:
        while True:
            room = random.randrange(2**62) // size * size + dp
            if room not in self.rooms:
                self.rooms.add(room)
                return room

    def _judge(self, name: str, status: int) -> None:
        """The leg that failed is charged; what the client did wrong charges nobody."""
        if status < 500:
            self._failures.pop(name, None)
            self.shut.pop(name, None)
            return
        self._failures[name] += 1
        if self._failures[name] >= FAILURES_TO_OPEN:
            self.shut[name] = "open"

    # How it follows.

    async def _follow(self) -> None:
        while True:
            try:
                if self.deaf:
                    await asyncio.sleep(0.05)
                elif self.cursor is None:
                    await self._join()
                else:
                    await self._go_on(self.cursor)
            except Away as problem:
                self.problems.append(str(problem))
                await asyncio.sleep(0.2)

    async def _join(self) -> None:
        life = {"name": self.name, "url": self.url, "lease_seconds": self.lease_seconds}
        await self._tell("POST", "gateways", life)
        await self._snapshot()

    async def _snapshot(self) -> None:
        found = await self._tell("GET", "fleet")
        self.state, self.cursor = found["state"], found["cursor"]
        await self._acknowledge(found["ledger"], found["revision"])

    async def _go_on(self, cursor: str) -> None:
        try:
            page = await self._tell("GET", f"events?after={cursor}&wait={POLL_SECONDS}&limit=500")
        except Away as problem:
            if "410" in str(problem):
                await self._snapshot()
                return
            raise
        if self.deaf:  # it became so while it waited
            return
        self.state = fleetstate.follow(self.state, [SimpleNamespace(**item) for item in page["items"]])
        self.cursor = page["next"] or cursor
        last = page["items"][-1]["revision"] if page["items"] else page["revision"]
        try:
            await self._acknowledge(page["ledger"], last)
        except Away as problem:
            # Somebody removed it while it was silent: a new life, with a snapshot of its own.
            self.cursor = None if "404" in str(problem) else self.cursor
            raise

    async def _acknowledge(self, ledger: str, revision: int) -> None:
        await self._tell("POST", f"gateways/{self.name}/acknowledge", {"ledger": ledger, "revision": revision})
        self.acknowledged = (ledger, revision)

    # What it reports.

    async def _report(self) -> None:
        told: dict[str, str] = {}
        while True:
            await asyncio.sleep(self.report_seconds)
            if self.mute or self.cursor is None:
                continue
            with contextlib.suppress(Away):
                await self._tell("POST", f"gateways/{self.name}/open-rooms", {"open_rooms": self._open_rooms()})
                now = dict(self.shut)
                if now != told:
                    turned = [{"instance": n, "state": now.get(n, "closed")} for n in sorted({*now, *told})]
                    await self._tell("POST", f"gateways/{self.name}/breakers", {"breakers": turned})
                    told = now
                outcomes, self._outcomes = self._outcomes, Counter()
                counts = [
                    {"prefill": prefill, "decode": decode, "outcome": outcome, "count": count}
                    for (prefill, decode, outcome), count in outcomes.items()
                ]
                if counts:
                    await self._tell("POST", f"gateways/{self.name}/outcomes", {"outcomes": counts})

    def _open_rooms(self) -> list[dict[str, Any]]:
        """Of every instance and group that it could choose, zero included: silence would mean unknown."""
        known: set[tuple[str, int | None]] = set(self.open)
        for name, instance in self.state["instances"].items():
            groups = range(self._size(instance)) if instance["role"] == "prefill" else (None,)
            known |= {(name, dp) for dp in groups}
        return [
            {"instance": name, "dp": dp, "open_rooms": max(0, self.open[name, dp]), "age_seconds": 0.0}
            for name, dp in sorted(known, key=str)
        ]

    async def _tell(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        try:
            async with self._http.request(method, f"{self.base}/{path}", json=body, headers=self.headers) as answer:
                said = await answer.read()
                if answer.status >= 300:
                    raise Away(f"{answer.status} to {method} {path}: {said[:300]!r}")
                return await answer.json()
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise Away(f"{method} {path}: {problem!r}") from None
