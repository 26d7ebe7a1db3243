"""One round of bringing every router in step: look, take out, put in, and write down what was seen.

Any number of rounds may run at once, in any processes: taking out needs no order among them, and a worker is put in by
the one round that claims it. A router that does not answer holds up only itself: each has a thread of its own in the round.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog
from django.db import connections

from controlplane.access.secrets import unseal
from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.domain.routers import Held, NotNow, Steps, Worker, decide
from controlplane.models import Instance, Router
from controlplane.probes import outgoing
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.routers import Misunderstood, RouterClient
from controlplane.probes.workers import why_not_ready
from controlplane.queries import routers as queries

from . import router_facts

log = structlog.get_logger(__name__)

AT_ONCE = 8
WORKERS_AT_ONCE = 16
GONE_WITHIN_SECONDS = 1.5
HERE_WITHIN_SECONDS = 2.0
LOOK_AGAIN_SECONDS = 0.05
REST_SECONDS = 2.0
"""How long a router that did not answer is left alone."""

UNREADY_SECONDS = 3.0
"""How long an engine that was not ready is not asked again."""

TAKEN_OUT_WITHIN_SECONDS = 10.0
READY_WITHIN_SECONDS = 8.0
TOLD_WITHIN_SECONDS = 4.0
"""No request of its kind is begun later than so long after the first; the next round goes on. What the router was told
must be well within PENDING_SECONDS of the claim: after that a worker that does not appear is taken for absent."""

Breakers = tuple[Mapping[str, str] | None, str]
"""States of breakers by URL; None when nobody could say, and why, if there are metrics that should."""

_resting: dict[tuple[int, str], float] = {}
_putting_in: dict[int, threading.Lock] = defaultdict(threading.Lock)


def speaker(router: str) -> str:
    """What stands in `gateway` columns for a router."""
    return f"router:{router}"


def reconcile(now: float | None = None) -> int:
    """One round over all routers; how many workers were put in or taken out. Not for code that runs in an event loop."""
    at = time.time() if now is None else now
    rested = time.monotonic()
    for key in [key for key, until in list(_resting.items()) if until <= rested]:
        _resting.pop(key, None)
    routers = [one for one in Router.objects.using(READER).order_by("pk") if (one.pk, one.url) not in _resting]
    if not routers:
        return 0
    # Whoever did not answer the last time holds up nobody: they come last.
    routers.sort(key=lambda one: one.state == Router.State.AWAY)
    desired = queries.workers(now=at)
    known = list(Instance.objects.using(READER).all())
    keys = {one.name: one.engine_key for one in known if one.engine_key}
    allowed = outgoing.policy([one.own_port for one in known if one.own_port])
    rounds = [_Round(one, at, desired, keys, allowed) for one in routers]
    with ThreadPoolExecutor(min(AT_ONCE, len(rounds)), thread_name_prefix="router") as pool:
        return sum(pool.map(_run, rounds))


def _run(one: _Round) -> int:
    try:
        return one.run()
    except Exception:
        # The others go on; this one is tried again in the next round.
        log.exception("router round failed", router=one.router.name)
        return 0
    finally:
        connections.close_all()


@dataclass
class _Round:
    router: Router
    at: float
    desired: Mapping[str, Worker | NotNow]
    keys: Mapping[str, str]
    allowed: ProbePolicy
    client: RouterClient = field(init=False)
    unread: str = ""

    def run(self) -> int:
        key = unseal(self.router.api_key)
        if key is None:
            router_facts.away(self.router, "its key cannot be opened with this SECRET_KEY")
            return 0
        self.client = RouterClient(self.router.url, key, self.router.metrics_url, self.allowed)
        try:
            return self._bring_in_step()
        except Refused as refused:
            _resting[self.router.pk, self.router.url] = time.monotonic() + REST_SECONDS
            router_facts.away(self.router, refused.sentence)
            return 0

    def _bring_in_step(self) -> int:
        held: Sequence[Held] = asyncio.run(self.client.workers())
        # Read after the list: whoever was written down as put in before, was in it.
        members = router_facts.members(self.router.pk)
        steps = decide(self.desired, members, held, now=self.at)
        held, (breakers, self.unread) = asyncio.run(self._take_out(steps, held))
        # A worker that could not be taken out, or listed under another port still, is not put in a second time.
        left = {one.worker.url for one in held}
        missing = [name for name in steps.additions if self._wanted(name).url not in left]
        seen = router_facts.Seen(self.at, steps, held, breakers, self.desired, self.unread)
        changed = router_facts.write(self.router, members, seen)
        return changed + (self._put_in(missing) if missing else 0)

    async def _take_out(self, steps: Steps, held: Sequence[Held]) -> tuple[Sequence[Held], Breakers]:
        """The list afterwards, and how its breakers stand."""
        reading = asyncio.create_task(self._breakers(held))
        going = {removal.held.id for removal in steps.removals}
        if going:
            await _each(going, self._remove, within=TAKEN_OUT_WITHIN_SECONDS)
            held = await self._until(lambda now: not going & {one.id for one in now}, GONE_WITHIN_SECONDS)
        return held, await reading

    async def _remove(self, worker_id: str) -> None:
        try:
            await self.client.remove(worker_id)
        except Misunderstood as refused:
            # It stays in the list, which is what counts; the others must go all the same.
            log.warning("router kept a worker", router=self.router.name, worker=worker_id, reason=refused.sentence)

    async def _breakers(self, held: Sequence[Held]) -> Breakers:
        if not self.router.metrics_url:
            return None, ""
        try:
            found = await self.client.breakers()
        except Refused as refused:
            return None, f"its breakers are not known: {refused.sentence}"
        if held and not any(one.worker.url in found for one in held):
            # Metrics of something else, or of a router that names them otherwise: that says nothing of breakers.
            return None, "its breakers are not known: its metrics have none of the workers that it lists"
        return found, ""

    async def _until(self, done: Callable[[Sequence[Held]], bool], seconds: float) -> Sequence[Held]:
        """The router's list, once it is as it shall be; at the latest after so long."""
        until = time.monotonic() + seconds
        while True:
            held = await self.client.workers()
            if done(held) or time.monotonic() >= until:
                return held
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def _put_in(self, names: Sequence[str]) -> int:
        """One at a time in a process: engines that hang would hold every thread, and taking out must go on."""
        alone = _putting_in[self.router.pk]
        if not alone.acquire(blocking=False):
            return 0
        try:
            return self._put_in_alone(names)
        finally:
            alone.release()

    def _put_in_alone(self, names: Sequence[str]) -> int:
        ready = self._ready(names)
        claimed = router_facts.claim(self.router, ready) if ready else {}
        if not claimed:
            return 0
        held, refused = asyncio.run(self._send(claimed))
        router_facts.give_back(self.router, refused)
        members = router_facts.members(self.router.pk)
        steps = decide(self.desired, members, held, now=self.at)
        seen = router_facts.Seen(self.at, steps, held, None, self.desired, self.unread)
        return router_facts.write(self.router, members, seen)

    def _ready(self, names: Sequence[str]) -> dict[str, Worker]:
        """Those that answer now. Whoever does not is left alone for a while, also by rounds that run beside this one."""
        now = time.monotonic()
        asked = {name: (self.router.pk, self._wanted(name).url) for name in names}
        asked = {name: key for name, key in asked.items() if _resting.get(key, 0.0) <= now}
        _resting.update((key, now + UNREADY_SECONDS) for key in asked.values())
        problems = asyncio.run(self._probe(list(asked))) if asked else {}
        for name in [name for name, why in problems.items() if why == NO_TIME]:
            _resting.pop(asked[name], None)
        router_facts.say(self.router, {name: why for name, why in problems.items() if why})
        ready = [name for name in asked if not problems[name]]
        for name in ready:
            _resting.pop(asked[name], None)
        return {name: self._wanted(name) for name in ready}

    async def _probe(self, names: Sequence[str]) -> dict[str, str]:
        """Why each cannot be put in; empty when it can."""
        found: dict[str, str] = {}

        async def probe(name: str) -> None:
            key = unseal(self.keys.get(name, ""))
            if key is None:
                found[name] = "the engine's key cannot be opened with this SECRET_KEY"
                return
            worker = self._wanted(name)
            found[name] = await why_not_ready(worker.url, kind=worker.kind, key=key, allowed=self.allowed)

        # Not always the same first: they may be those that hang.
        skipped = await _each(random.sample(names, len(names)), probe, within=READY_WITHIN_SECONDS)
        return found | dict.fromkeys(skipped, NO_TIME)

    async def _send(self, claimed: Mapping[str, Worker]) -> tuple[Sequence[Held], dict[str, str]]:
        """The list afterwards, and what the router said no to, with its sentence."""
        refused: dict[str, str] = {}

        async def send(name: str) -> None:
            try:
                await self.client.add(claimed[name], key=unseal(self.keys.get(name, "")) or "")
            except Misunderstood as problem:
                refused[name] = f"the router: {problem.sentence}"

        skipped = await _each(claimed, send, within=TOLD_WITHIN_SECONDS)
        refused |= dict.fromkeys(skipped, "the router took so long over others that it was not told")
        wanted = {worker for name, worker in claimed.items() if name not in refused}
        held = await self._until(lambda now: wanted <= {one.worker for one in now}, HERE_WITHIN_SECONDS)
        return held, refused

    def _wanted(self, name: str) -> Worker:
        worker = self.desired[name]
        assert isinstance(worker, Worker)
        return worker


async def _each(items: Iterable[str], work: Callable[[str], Awaitable[None]], *, within: float) -> list[str]:
    """All of them, a bounded number at once; those that were not begun `within` seconds. The first refusal is raised when
    all are done."""
    places, until, late = asyncio.Semaphore(WORKERS_AT_ONCE), time.monotonic() + within, list[str]()

    async def one(item: str) -> None:
        async with places:
            if time.monotonic() > until:
                late.append(item)
            else:
                await work(item)

    done = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for problem in done:
        if isinstance(problem, BaseException):
            raise problem
    return late


NO_TIME = "nobody had time to ask whether its engine is ready: others are asked as well"
