"""Probes beside the wire: asks what decisions want to know, sweeps what is registered, feeds the answers back."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

import structlog

from controlplane.domain.addresses import parse_ip
from controlplane.domain.contact import Contact
from controlplane.domain.launch import CONFIRM_AFTER, Address
from controlplane.domain.observation import is_news
from controlplane.domain.verdicts import Jury
from controlplane.probes import mooncake
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.pacing import TICK_SECONDS, at_a_time, round_seconds
from controlplane.probes.places import Places
from controlplane.probes.sweep import Prober, Target
from controlplane.probes.timing import Timing

from .fleet import Fleet, Instance
from .operations import Observe
from .recorder import Recorder, Staged
from .sweeping import NEVER, Turns, Whom, everybody, known_contact

log = structlog.get_logger()

GATHER_SECONDS = 0.005
UNASKED_TRIES = 3
MOST_TICKS_AT_ONCE = 5
ONCE_IS_CHANCE = {Contact.SILENT, Contact.UNREACHED, Contact.STRANGER}
"""Of a rank that answered before: shown when it comes twice. That a refusal counts only twice is a rule of the domain."""


class Watch:
    """One per leader. `interval` is the pause between sweeps in seconds; 0 asks only what launches need."""

    def __init__(self, fleet: Fleet, recorder: Recorder, prober: Prober, *, interval: float) -> None:
        self._fleet = fleet
        self._recorder = recorder
        self._prober = prober
        self._interval = interval
        self._answers: dict[int, dict[Address, Contact]] = defaultdict(dict)
        self._session_answers: dict[int, dict[str, Contact]] = defaultdict(dict)
        self._answered = asyncio.Event()
        self._asking: set[Whom] = set()
        # Of their own: one that hangs takes twice as long as a rank, and as many sockets as ranks may have are spoken for.
        self._session_places = Places(64, 192)
        self._turns = Turns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sources: dict[Address, str] = {}
        self._jury = Jury()
        self.paused = False
        self.sweeps = 0
        self.swept = 0
        self.sweep_seconds = 0.0

    @property
    def pace(self) -> dict[str, float]:
        """How many rounds there were, how many were asked in the last one, over how many seconds, and all that were."""
        return {
            "rounds": self.sweeps,
            "ranks": self.swept,
            "seconds": round(self.sweep_seconds, 3),
            "asked": self._prober.timing.asked,
        }

    @property
    def policy(self) -> ProbePolicy:
        return self._prober.policy

    @property
    def timing(self) -> Timing:
        return self._prober.timing

    def wanted(self, staged: Staged) -> None:
        """What a batch left open: ask now, or once more after the time that makes a second refusal count."""
        for address in staged.probe:
            source = staged.sources.get(address)
            if source is not None:
                self._sources[address] = source
            self.ask(staged.instance, address)
        loop = asyncio.get_running_loop()
        for address in staged.again:
            loop.call_later(CONFIRM_AFTER + 0.02, self.ask, staged.instance, address)
        for session in staged.sessions:
            self.ask_session(staged.instance, session)
        for session in staged.sessions_again:
            loop.call_later(CONFIRM_AFTER + 0.02, self.ask_session, staged.instance, session)

    def ask(self, instance: Instance, address: Address) -> None:
        key = (instance.id, address)
        if key not in self._asking:
            self._asking.add(key)
            self._turns.asked(key, time.monotonic())
            self._spawn(self._probe(instance, address))

    def ask_session(self, instance: Instance, session: str) -> None:
        key = (instance.id, session)
        if key not in self._asking and session in instance.engines.sessions():
            self._asking.add(key)
            self._spawn(self._probe_session(instance, session))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def finished(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and done.exception() is not None:
                log.error("probe_failed", problem=repr(done.exception()))

        task.add_done_callback(finished)

    async def _probe(self, instance: Instance, address: Address) -> None:
        target = Target(address[0], address[1], self._sources.get(address, ""))
        try:
            contact = await self._ask(target)
            if contact in ONCE_IS_CHANCE and not self.paused and known_contact(instance, address) is Contact.UP:
                self._hear(instance, address, contact)
                await asyncio.sleep(CONFIRM_AFTER)
                contact = await self._ask(target)
        finally:
            # Before the verdict, and nothing else runs between: whoever then needs a fresh answer can ask for one.
            self._asking.discard((instance.id, address))
        if contact is Contact.UNPROBED:
            if known_contact(instance, address) is Contact.UP and not self._forbidden(target):
                # We have asked too much today: that says nothing about somebody who is known to answer.
                return
            # Nobody may or could ask: as good as never reached, which counts as present.
            contact = Contact.UNREACHED
        if self._counts(instance, address, contact) and is_news(instance.directory, address, contact):
            self._answers[instance.id][address] = contact
            self._answered.set()

    async def _ask(self, target: Target) -> Contact:
        """What it answers; tried a few times when we had no right to ask just now."""
        contact = Contact.UNPROBED
        for _ in range(UNASKED_TRIES):
            contact = await self._prober.probe(target)
            if contact is not Contact.UNPROBED or self._forbidden(target):
                break
            await asyncio.sleep(0.5)
        return contact

    def _forbidden(self, target: Target) -> bool:
        # Whether the address behind a name may be asked is known once somebody has looked it up.
        known = parse_ip(target.host) is not None
        return known and self.policy.refusal(target.host, target.port, source_ip=target.source) is not None

    def _counts(self, instance: Instance, address: Address, contact: Contact) -> bool:
        """Whether this answer may become a verdict. A pause starts and ends with a log line."""
        self._hear(instance, address, contact)
        paused = self._jury.paused()
        if paused != self.paused:
            self.paused = paused
            log.warning("verdicts_paused" if paused else "verdicts_resumed", last=f"{address[0]}:{address[1]}")
        return not paused or contact is Contact.UP

    def _hear(self, instance: Instance, address: Address, contact: Contact) -> None:
        """When somebody stops, others are asked at once whether it is only that one."""
        now = time.monotonic()
        if self._jury.hear(instance.id, address, contact, now):
            for other, of in self._jury.summon(now, random.sample).items():
                if of in self._fleet.by_id:
                    self.ask(self._fleet.by_id[of], other)

    async def _probe_session(self, instance: Instance, session: str) -> None:
        where = mooncake.split_session(session)
        contact = Contact.UNREACHED
        try:
            if where is not None and self.policy.may_probe(*where, source_ip=""):
                place = await self._session_places.take()
                try:
                    contact = await mooncake.probe(*where)
                finally:
                    place.give_back()
        finally:
            self._asking.discard((instance.id, session))
        self._session_answers[instance.id][session] = contact
        self._answered.set()

    async def report_forever(self) -> None:
        """Hand answers to the recorder, those of a few milliseconds together."""
        while True:
            await self._answered.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._answered.clear()
            answers, self._answers = self._answers, defaultdict(dict)
            sessions, self._session_answers = self._session_answers, defaultdict(dict)
            for id_ in answers.keys() | sessions.keys():
                instance = self._fleet.by_id.get(id_)
                if instance is not None:
                    self._recorder.submit(Observe(instance, answers.get(id_, {}), sessions.get(id_)))

    async def sweep_forever(self) -> None:
        """Ask everybody who is registered, again and again, evenly spread over each round (see pacing)."""
        while True:
            began = ticked = time.monotonic()
            count = await self._gather()
            seconds = round_seconds(count, self._interval or 1.0)
            size = at_a_time(count, seconds)
            while True:
                now = time.monotonic()
                # By the clock: a tick that comes late asks more, but does not make it a burst.
                ticks = min(MOST_TICKS_AT_ONCE, max(1, round((now - ticked) / TICK_SECONDS)))
                due = self._turns.due(now - seconds if self._interval else NEVER, ticks * size)
                for whom in due:
                    self._ask_again(whom, now)
                if now - began >= seconds and (self._interval or not due):
                    break
                ticked = now
                await asyncio.sleep(TICK_SECONDS)
            self.sweeps += 1
            self.swept, self.sweep_seconds = count, time.monotonic() - began
            if not self._interval:
                return

    def _ask_again(self, whom: Whom, now: float) -> None:
        self._turns.asked(whom, now)
        instance = self._fleet.by_id.get(whom[0])
        if instance is None or instance.retired:
            return
        if isinstance(whom[1], str):
            self.ask_session(instance, whom[1])
        else:
            self.ask(instance, whom[1])

    async def _gather(self) -> int:
        """How many there are to ask; of everybody else nothing is kept."""
        whole, watched = await everybody(self._fleet)
        self._turns.keep(whole)
        self._jury.forget(watched)
        for gone in self._sources.keys() - watched:
            del self._sources[gone]
        return len(whole)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._prober.close()
