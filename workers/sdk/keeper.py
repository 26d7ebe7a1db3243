"""Keeps a process's ranks registered for as long as it lives: tries for ever, beats, and does what the answers say."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from controlplane.domain.addresses import bracketed, is_loopback
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.protocol.observed import read_slot, slot_query

from .backoff import Backoff
from .errors import NotAdvertisable, TimedOut, WorkerError
from .exchange import Ask
from .keeping import BEAT, Speaks, Standing, heard, is_plain, looked
from .own_address import on_this_host
from .ranks import Rank
from .servers import JSON_BODY, ControlPlane, checked, decoded, refusal_in
from .wire import Wire

log = logging.getLogger(__name__)

TRY_SECONDS = 5.0
BEATS_PER_LEASE = 3
BEAT_PATH = "/pd/v1/heartbeats"

OnChange = Callable[[Standing], None]


class Keeper:
    """Registers `ranks` and keeps them so. `run()` is a task of its own and never ends; nothing it does blocks its loop.

    `on_change` is called with each new standing, in the order in which they came; what it raises is logged, not spread.
    `token` says which launch the ranks are of ("": nobody knows, and the control plane infers it), `worker` is the name of
    this process. The lease is in seconds: silent for longer, the control plane holds this process for gone.
    """

    def __init__(
        self,
        wire: Wire,
        control_plane: ControlPlane,
        ranks: Sequence[Rank],
        *,
        token: str,
        worker: str,
        lease_seconds: float = 15.0,
        backoff: Backoff = Backoff(),  # noqa: B008  (frozen)
        on_change: OnChange | None = None,
        dice: random.Random | None = None,
    ) -> None:
        self._wire, self._at = wire, control_plane
        self._ranks = {rank.slot: rank for rank in ranks}
        if len(self._ranks) != len(ranks) or not ranks:
            raise WorkerError("a worker keeps one or more ranks, each in a slot of its own")
        self._token, self._worker, self._lease = token, worker, lease_seconds
        self._backoff, self._dice = backoff, dice or random.Random()
        self._on_change = on_change
        self.standing = Standing(frozenset(self._ranks))
        self._moved = asyncio.Condition()
        self._stirred = asyncio.Event()
        self._told = ""

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._register_for_ever())
            both.create_task(self._beat_for_ever())

    async def registered(self, *, within: float) -> Standing:
        """Once all ranks are acknowledged. Raises TimedOut with the last trouble; the keeper goes on trying."""
        try:
            async with asyncio.timeout(within), self._moved:
                await self._moved.wait_for(lambda: self.standing.is_registered)
        except TimeoutError:
            missing = ", ".join(map(str, sorted(self.standing.missing)[:8]))
            why = self.standing.trouble or "nothing was answered yet"
            raise TimedOut(str(self._at.kv), f"{missing} not registered within {within:g} s: {why}") from None
        return self.standing

    async def register_again(self, slots: Sequence[Slot] | None = None) -> None:
        """As if the control plane had asked for it."""
        await self._become(self.standing.lost(self._ranks if slots is None else slots))

    async def _register_for_ever(self) -> None:
        pauses = self._backoff.pauses(self._dice)
        while True:
            async with self._moved:
                await self._moved.wait_for(lambda: not self.standing.is_registered)
            before = self.standing.missing
            await asyncio.gather(*(self._put(self._ranks[slot]) for slot in sorted(before)))
            if self.standing.is_registered:
                pauses = self._backoff.pauses(self._dice)
                self._stirred.set()
                continue
            await asyncio.sleep(next(pauses))

    async def _put(self, rank: Rank) -> None:
        launch = {"x-pd-generation": self._token} if self._token else {}
        headers = self._at.headers(**JSON_BODY, **launch)
        ask = Ask("PUT", "/route", headers, rank.body(), fresh=True)
        try:
            checked(self._at.kv, await self._wire.ask(self._at.kv, ask, within=TRY_SECONDS))
        except WorkerError as problem:
            await self._become(self.standing.failed(problem.sentence))
        else:
            await self._become(self.standing.took(rank.slot))

    async def _beat_for_ever(self) -> None:
        while True:
            pause = self._lease / BEATS_PER_LEASE * self._dice.uniform(0.8, 1.0)
            try:
                async with asyncio.timeout(pause):
                    await self._stirred.wait()
            except TimeoutError:
                pass
            self._stirred.clear()
            if self.standing.registered:
                try:
                    await self._beat_or_look()
                except WorkerError as problem:
                    await self._become(self.standing.failed(problem.sentence))

    async def _beat_or_look(self) -> None:
        if self.standing.speaks is not Speaks.SGLANG and await self._beat():
            return
        for slot in sorted(self.standing.registered):
            await self._look(slot)

    async def _beat(self) -> bool:
        """False when nobody there knows heartbeats."""
        body = {
            "worker": self._worker,
            "slots": [list(slot) for slot in sorted(self.standing.registered)],
            "generation": self._token or None,
            "lease_seconds": self._lease,
        }
        ask = Ask("POST", BEAT_PATH, self._at.headers(**JSON_BODY), msgspec.json.encode(body))
        answer = await self._wire.ask(self._at.kv, ask, within=TRY_SECONDS)
        if self.standing.speaks is not Speaks.CONTROL_PLANE and is_plain(answer.status, answer.body):
            log.info("%s takes no heartbeats: it is SGLang's own bootstrap server", self._at.kv)
            await self._become(replace(self.standing, speaks=Speaks.SGLANG))
            return False
        await self._become(heard(self.standing, decoded(self._at.kv, checked(self._at.kv, answer), BEAT)))
        return True

    async def _look(self, slot: Slot) -> None:
        rank = self._ranks[slot]
        ask = Ask("GET", slot_query(slot), self._at.headers())
        answer = await self._wire.ask(self._at.kv, ask, within=TRY_SECONDS)
        address, said = "", ""
        if answer.status == 200:
            try:
                host, port = read_slot(answer.body)
            except Refused as problem:
                raise WorkerError(f"{self._at.kv} answers for {slot} what cannot be read: {problem.sentence}") from None
            address = f"{bracketed(host)}:{port}"
        else:
            said = refusal_in(self._at.kv, answer).said
        put = rank.registration()
        await self._become(
            looked(self.standing, slot, (f"{bracketed(put.ip)}:{put.port}",), answer.status, said, address)
        )

    async def _become(self, standing: Standing) -> None:
        before, self.standing = self.standing, standing
        if standing == before:
            return
        self._tell(before, standing)
        if self._on_change is not None:
            try:
                self._on_change(standing)
            except Exception:
                log.exception("a listener of this worker's standing failed")
        async with self._moved:
            self._moved.notify_all()

    def _tell(self, before: Standing, now: Standing) -> None:
        """Each trouble once, and its end."""
        if now.trouble and now.trouble != self._told:
            self._told = now.trouble
            log.warning("not in order with the control plane: %s; it is tried again", now.trouble)
        if now.is_registered and not before.is_registered:
            self._told = ""
            log.info("%d ranks are registered at %s", len(now.registered), self._at.kv)
        if now.draining != before.draining:
            log.info("the control plane %s this worker to drain", "asks" if now.draining else "no longer asks")


def check_advertised(control_plane: ControlPlane, ranks: Sequence[Rank]) -> None:
    """Loopback means another host there than here: it is not told to a control plane elsewhere. Raises NotAdvertisable."""
    told = [rank.rank_ip for rank in ranks if is_loopback(rank.registration().ip)]
    if told and not on_this_host(control_plane.kv):
        raise NotAdvertisable(
            f"rank_ip {told[0]} is loopback, and the control plane at {control_plane.kv} is on another host; register an"
            " address that others can reach"
        )
