"""The demo's gateway: it follows the fleet, sends steady requests to pairs that may have them, and reports what it sees."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx

from controlplane.domain import fleetstate
from workers.sdk import Mint

from .api import Api, Away
from .choosing import Breakers, Pair, blamed, pairs
from .plan import AGENTS, GATEWAY

AT_ONCE = 32
WAIT_SECONDS = 10.0
REPORT_SECONDS = 1.0
LEG_SECONDS = 15.0
VOCABULARY = 512


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that did not end well. `sentence`: what the leg said that is to blame."""

    room: int
    pair: Pair
    sentence: str


class Gateway:
    """`run` until it is cancelled. `sent`, `well`, `held` (there was no pair to send it to) count requests. `note`: takes a
    sentence about each that failed."""

    def __init__(
        self,
        api: Api,
        *,
        kv: str,
        urls: dict[str, str],
        rate: float,
        dice: random.Random,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.sent = self.well = self.held = 0
        self.failures: deque[Failure] = deque(maxlen=1000)
        self.failed = 0
        self.last_room: int | None = None
        self._api, self._urls, self._rate, self._dice, self._note = api, urls, rate, dice, note
        self._host, _, port = kv.rpartition(":")
        self._port = int(port)
        self._mint = Mint(dice)
        self._state: dict[str, Any] = fleetstate.empty()
        self._breakers = Breakers()
        self._open: Counter[str] = Counter()
        self._outcomes: Counter[tuple[str, str, str]] = Counter()
        self._turn = 0

    async def run(self) -> None:
        limits = httpx.Limits(max_connections=2 * AT_ONCE, max_keepalive_connections=8)
        async with (
            httpx.AsyncClient(timeout=LEG_SECONDS, trust_env=False, limits=limits) as self._http,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._follow())
            tasks.create_task(self._report())
            tasks.create_task(self._traffic(tasks))

    async def leave(self) -> None:
        """The control plane ends next, so it need not hear it."""
        with contextlib.suppress(Away):
            await self._api.delete(f"gateways/{GATEWAY}?reason=the+demo+ends")

    # Requests.

    async def _traffic(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await asyncio.sleep(self._dice.expovariate(self._rate))
            now = time.monotonic()
            found = self._breakers.let_through(pairs(self._state, AGENTS), now)
            if not found or sum(self._open.values()) >= AT_ONCE:
                self.held += 1
                continue
            pair = found[self._turn % len(found)]
            self._turn += 1
            tasks.create_task(self._request(pair))

    async def _request(self, pair: Pair) -> None:
        room = self._mint.room()
        prompt = [self._dice.randrange(1, VOCABULARY) for _ in range(self._dice.randrange(6, 40))]
        body = {
            "input_ids": prompt,
            "sampling_params": {"max_new_tokens": self._dice.randrange(4, 12)},
            # The instance stands in the host, as an unmodified decode can be told it.
            "bootstrap_host": f"{pair.prefill}:demo@{self._host}",
            "bootstrap_port": self._port,
            "bootstrap_room": room,
            "rid": f"demo-{room}",
        }
        self.sent += 1
        self._open[pair.prefill] += 1
        self._open[pair.decode] += 1
        try:
            first, second = await asyncio.gather(self._leg(pair.prefill, body), self._leg(pair.decode, body))
        finally:
            self._open[pair.prefill] -= 1
            self._open[pair.decode] -= 1
        self._conclude(room, pair, first, second)

    async def _leg(self, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        try:
            answer = await self._http.post(f"{self._urls[name]}/generate", json=body)
            return answer.status_code, answer.json()
        except httpx.TimeoutException:
            return 0, f"{name} answered nothing for {LEG_SECONDS:g} s"
        except (httpx.HTTPError, ValueError) as problem:
            return 0, f"{name} does not answer: {problem or type(problem).__name__}"

    def _conclude(self, room: int, pair: Pair, first: tuple[int, Any], second: tuple[int, Any]) -> None:
        now, blame = time.monotonic(), blamed(first[0], second[0])
        well = first[0] == second[0] == 200
        if well and second[1]["output_ids"][:1] != first[1]["output_ids"]:
            well, blame, second = False, "decode", (502, "the decode went on from another token than the prefill's")
        outcome = "ok" if well else f"{blame or 'request'}_failed"
        self._outcomes[pair.prefill, pair.decode, outcome] += 1
        if well:
            self.well += 1
            self.last_room = room
        else:
            self.failed += 1
            # A decode that finds something wrong knows most: the prefill may say no more than that its decode gave up.
            told = first[1] if first[0] not in (200, 502) or (second[0] != 502 and blame == "prefill") else second[1]
            self.failures.append(Failure(room, pair, _sentence(told)))
            self._note(f"{pair.prefill} {first[0]}, {pair.decode} {second[0]}, room {room}: {_sentence(told)}")
        if well or blame == "prefill":
            self._breakers.judge(pair.prefill, ok=well, now=now)
        if well or blame == "decode":
            self._breakers.judge(pair.decode, ok=well, now=now)

    # What it follows.

    async def _follow(self) -> None:
        cursor: str | None = None
        while True:
            try:
                cursor = await self._join() if cursor is None else await self._go_on(cursor)
            except Away as problem:
                # Gone: its ledger, or the gateway itself. It goes on with the fleet that it knows.
                cursor = None if problem.status in (404, 410) else cursor
                await asyncio.sleep(0.5)

    async def _join(self) -> str:
        await self._api.post("gateways", {"name": GATEWAY, "lease_seconds": 15})
        found = await self._api.get("fleet")
        self._state = found["state"]
        await self._acknowledge(found["ledger"], found["revision"])
        return str(found["cursor"])

    async def _go_on(self, cursor: str) -> str:
        page = await self._api.get(f"events?after={cursor}&wait={WAIT_SECONDS:g}&limit=500")
        self._state = fleetstate.follow(self._state, [SimpleNamespace(**item) for item in page["items"]])
        last = page["items"][-1]["revision"] if page["items"] else page["revision"]
        await self._acknowledge(page["ledger"], last)
        return str(page["next"] or cursor)

    async def _acknowledge(self, ledger: str, revision: int) -> None:
        await self._api.post(f"gateways/{GATEWAY}/acknowledge", {"ledger": ledger, "revision": revision})

    # What it reports.

    async def _report(self) -> None:
        told: dict[str, str] = {}
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            outcomes: Counter[tuple[str, str, str]] = Counter()
            try:
                counts = [{"instance": n, "dp": None, "open_rooms": self._open[n], "age_seconds": 0} for n in AGENTS]
                await self._api.post(f"gateways/{GATEWAY}/open-rooms", {"open_rooms": counts})
                now = {name: self._breakers.state(name, time.monotonic()) for name in AGENTS}
                if changed := [{"instance": n, "dp": None, "state": s} for n, s in now.items() if told.get(n) != s]:
                    await self._api.post(f"gateways/{GATEWAY}/breakers", {"breakers": changed})
                    told = now
                outcomes, self._outcomes = self._outcomes, Counter()
                if outcomes:
                    said = [
                        {"prefill": prefill, "decode": decode, "outcome": outcome, "count": count}
                        for (prefill, decode, outcome), count in outcomes.items()
                    ]
                    await self._api.post(f"gateways/{GATEWAY}/outcomes", {"outcomes": said})
            except Away:
                self._outcomes += outcomes


def _sentence(answer: Any) -> str:
    if isinstance(answer, dict):
        error = answer.get("error")
        return str(error.get("message", error)) if isinstance(error, dict) else str(answer)[:300]
    return str(answer)
