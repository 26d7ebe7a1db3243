"""Probes beside the wire: asks what decisions want to know, sweeps what is registered, feeds the answers back."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

import structlog

from controlplane.domain.contact import Contact
from controlplane.domain.launch import CONFIRM_AFTER, Address
from controlplane.domain.verdicts import Jury
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.sweep import Prober, Target
from controlplane.probes.tcp import connect, split_session

from .fleet import Fleet, Instance
from .operations import Observe
from .recorder import Recorder, Staged

log = structlog.get_logger()

GATHER_SECONDS = 0.005
UNASKED_TRIES = 3
SWEEP_PER_SECOND = 1000
MAX_STRETCH_SECONDS = 8.0


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
        self._asking: set[tuple[int, Address | str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sources: dict[Address, str] = {}
        self._jury = Jury()
        self.paused = False
        self.sweeps = 0

    @property
    def policy(self) -> ProbePolicy:
        return self._prober.policy

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
            self._spawn(self._probe(instance, address), key)

    def ask_session(self, instance: Instance, session: str) -> None:
        key = (instance.id, session)
        if key not in self._asking and session in instance.engines.sessions():
            self._asking.add(key)
            self._spawn(self._probe_session(instance, session), key)

    def _spawn(self, work: object, key: tuple[int, Address | str]) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)

        def finished(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            self._asking.discard(key)
            if not done.cancelled() and done.exception() is not None:
                log.error("probe_failed", problem=repr(done.exception()))

        task.add_done_callback(finished)

    async def _probe(self, instance: Instance, address: Address) -> None:
        target = Target(address[0], address[1], self._sources.get(address, ""))
        contact = Contact.UNPROBED
        for _ in range(UNASKED_TRIES):
            contact = await self._prober.probe(target)
            if contact is not Contact.UNPROBED or self.policy.refusal(*address, source_ip=target.source):
                break
            await asyncio.sleep(0.5)
        if contact is Contact.UNPROBED:
            # Nobody may or could ask: as good as never reached, which counts as present.
            contact = Contact.UNREACHED
        if self._counts(instance, address, contact):
            self._answers[instance.id][address] = contact
            self._answered.set()

    def _counts(self, instance: Instance, address: Address, contact: Contact) -> bool:
        """Whether this answer may become a verdict. A pause starts and ends with a log line."""
        self._jury.hear(instance.id, address, contact, time.monotonic())
        paused = self._jury.paused()
        if paused != self.paused:
            self.paused = paused
            log.warning("verdicts_paused" if paused else "verdicts_resumed", last=f"{address[0]}:{address[1]}")
        return not paused or contact is Contact.UP

    async def _probe_session(self, instance: Instance, session: str) -> None:
        where = split_session(session)
        contact = Contact.UNREACHED
        if where is not None and self.policy.may_probe(*where, source_ip=""):
            contact = await connect(*where, timeout=self._prober.timeout)
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
        """Ask every registered address, again and again; a large fleet is spread over a longer round."""
        while True:
            began = time.monotonic()
            asked = 0
            watched: set[Address] = set()
            for instance in list(self._fleet.by_id.values()):
                if instance.retired:
                    continue
                own = instance.directory.watched(time.time())
                watched |= own
                for address in own:
                    self.ask(instance, address)
                    asked += 1
                    if asked % 100 == 0:
                        await asyncio.sleep(100 / SWEEP_PER_SECOND)
                for session in instance.engines.sessions():
                    self.ask_session(instance, session)
                # A large fleet takes a while to walk, and the wire does not wait for it.
                await asyncio.sleep(0)
            self._jury.forget(watched)
            for gone in self._sources.keys() - watched:
                del self._sources[gone]
            self.sweeps += 1
            if not self._interval:
                return
            spent = time.monotonic() - began
            await asyncio.sleep(max(self._interval - spent, 0.2))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._prober.close()
