"""The leader's term: everything that serves, from the moment the lease is ours until it is lost or given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import structlog
from django.conf import settings

from controlplane.databases import FACTS, TRAFFIC
from controlplane.ledger import wake
from controlplane.ledger.checkpoint import Checkpointer
from controlplane.ledger.store import FactStore, RoomStore
from controlplane.ledger.wake import wakes
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.observed import Asker
from controlplane.probes.places import Places
from controlplane.probes.sweep import Prober, is_local_address
from controlplane.protocol.replies import PLAIN_JSON, Reply

from . import garbage
from .bodies import UploadBudget
from .complaints import Complaints, Note
from .doubts import Doubts
from .engine_door import EngineDoor
from .fleet import Fleet, Instance
from .flush import end_flushes_forever
from .guard import Guard
from .inbox import Inbox
from .knobs import Knobs
from .kv_door import KvDoor
from .lateness import Lateness, load_leases
from .lease import Lease
from .listeners import Listeners, PortTaken, probe_limit
from .loading import load_engine_body, load_instances, rows
from .lookups import Lookups
from .observer import Observer
from .operations import Doubt
from .packing import Packer
from .recorder import Recorder, Staged
from .registry import Registry
from .room_recorder import RoomRecorder
from .sampler import Sampler
from .tally import Tally
from .tenure import Tenure
from .watch import Watch

log = structlog.get_logger()

SQLITE_PAUSE = 0.001
WAKE_SECONDS = 0.05


class Leader:
    """Composition root of one term. `run` returns True when it was asked to stop, False when the lease was lost."""

    def __init__(self, knobs: Knobs, lease: Lease, lease_thread: ThreadPoolExecutor, *, sqlite: bool) -> None:
        self.knobs = knobs
        self.tenure = Tenure(lease, lease_thread)
        self.token = lease.token
        own = knobs.own_ports | {knobs.kv_port, knobs.engine_port}
        self.policy = ProbePolicy(allowed=knobs.probe_networks, own_ports=frozenset(own), is_own=is_local_address)
        # Each thread keeps a database connection, so there are few, and each has one job.
        self.reads = ThreadPoolExecutor(2, "reads")
        self.sqlite = sqlite
        self.stopping = False
        self.tasks: list[asyncio.Task[Any]] = []
        self._announced = 0
        self._wake = asyncio.Event()

    async def run(self, stop: asyncio.Event, at_once: asyncio.Event, *, patient: bool, announce: Any) -> bool:
        """`at_once`: asked to stop a second time. `patient`: after a take-over on one host the old leader may still hold
        the ports for a moment."""
        self._start(self.tenure.keep(), "tenure")
        try:
            instances, revision = await self._read(load_instances, self.policy)
            leases = await self._read(load_leases)
        except BaseException:
            await self._end(None, abrupt=True)
            raise
        fleet = self.fleet = Fleet(
            room_limit=self.knobs.room_limit,
            remembered=self.knobs.room_tombstone_limit,
            remembered_seconds=self.knobs.room_tombstone_seconds,
        )
        fleet.add_all(instances)
        fleet.index_holders()
        fleet.leases.load(leases)
        self._build(fleet, revision)
        garbage.settle()
        try:
            await self.guard.load()
            kv, engine = await self._open(patient=patient, stop=stop)
        except BaseException as problem:
            await self._end(None, abrupt=True)
            if patient and stop.is_set() and isinstance(problem, PortTaken):
                return True
            raise
        self._start(self.rooms.restore(self._read), "restore rooms")
        self._start(self.watch.report_forever(), "report")
        self._start(self.watch.sweep_forever(), "sweep")
        self._start(self._wake_readers(), "wake readers")
        self._start(garbage.collect_forever(), "collect")
        self._start(end_flushes_forever(fleet, self.recorder), "flush")
        self._start(Lateness(fleet, self.recorder).run(), "leases")
        self._start(self.observer.run(lambda sql: self._read(rows, sql)), "observe")
        self._start(self.inbox.follow_forever(), "inbox")
        doubts = Doubts(fleet, self.watch)
        self._start(doubts.follow_forever(lambda sql, values: self._read(rows, sql, values)), "doubts")
        self._start(self.sampler.run(), "samples")
        self._start(self.lookups.run(), "lookups")
        self._start(self.guard.refresh_forever(), "tokens")
        self._start(wakes(settings.REDIS_URL, self.inbox.wake), "wake")
        self._start(self.listeners.reap_forever(), "reap")
        # Whoever sends requests needs a while to hear that we are about to stop; of a start that ends here nobody heard.
        delay = 0.0 if stop.is_set() else self.knobs.stop_delay_seconds
        announce(kv, engine)
        await self._until(stop)
        self.stopping = True
        await self._until(at_once, seconds=delay)
        await self._end(self.listeners, abrupt=self.tenure.lost.is_set())
        return not self.tenure.lost.is_set()

    def _build(self, fleet: Fleet, revision: int) -> None:
        knobs = self.knobs
        pause = SQLITE_PAUSE if self.sqlite else 0.0
        policy = self.policy
        facts, rooms = FactStore(FACTS), RoomStore(TRAFFIC)
        self.recorder = Recorder(
            facts,
            published=self._published,
            reload=self._reload,
            fenced_out=self.tenure.lose,
            pause_seconds=pause,
        )
        self.rooms = RoomRecorder(
            rooms, fleet.rooms, ttl_seconds=knobs.room_ttl_seconds, fenced_out=self.tenure.lose, pause_seconds=pause
        )
        self.recorder.token = self.rooms.token = self.token
        self.recorder.revision = revision
        prober = Prober(policy, timeout=knobs.probe_timeout_seconds, places=Places.of(probe_limit()))
        self.watch = Watch(fleet, self.recorder, prober, interval=knobs.probe_interval_seconds)
        self.registry = Registry(fleet, facts, self.recorder.thread, token=self.token)
        self.packer = Packer()
        asker = Asker(policy, knobs.engine_body_limit)
        complaints = Complaints(self.recorder)
        self.observer = Observer(fleet, self.recorder, asker, complaints, parse=self.packer.parse)
        self.checkpointer = Checkpointer([FACTS, TRAFFIC])
        self.checkpointer.start()
        self.guard = Guard(knobs.gates, self._read)
        tally = Tally()
        self.sampler = Sampler(tally, self.rooms, fleet.rooms, prober.timing)
        self.lookups = Lookups(self.rooms, share=knobs.evidence_share)
        common: dict[str, Any] = {
            "budget": UploadBudget(knobs.upload_budget),
            "guard": self.guard,
            "may_answer": self.tenure.may_answer,
            "recorder": self.recorder,
            "adopt": self.registry.adopt,
            "ready": self.readiness,
            "complaints": complaints,
            "tally": tally,
        }
        kv: dict[str, Any] = {"rooms": self.rooms, "lookups": self.lookups, "policy": policy, **common}
        self.kv_door = KvDoor(fleet, body_limit=knobs.kv_body_limit, **kv)
        self.engine_door = EngineDoor(
            fleet,
            body_limit=knobs.engine_body_limit,
            parse=self.packer.parse,
            policy=policy,
            fetch_body=lambda digest: self._read(load_engine_body, digest),
            **common,
        )
        self.listeners = Listeners(fleet, host=knobs.host, deadline=lambda: self.tenure.deadline, tally=tally)
        self.inbox = Inbox(
            fleet,
            self.recorder,
            prober,
            changed=self._sync_ports,
            tokens_changed=self.guard.load,
            observe=self.observer.fresh,
            revision=revision,
        )
        self._start(self.recorder.run(), "recorder")
        self._start(self.rooms.run(), "rooms")
        self._start(self.rooms.sweep_forever(), "sweep rooms")

    async def _open(self, *, patient: bool, stop: asyncio.Event) -> tuple[int, int]:
        while True:
            try:
                kv = await self.listeners.open("kv", self.kv_door, self.knobs.kv_port, "PDCP_KV_PORT")
                engine = await self.listeners.open(
                    "engine", self.engine_door, self.knobs.engine_port, "PDCP_ENGINE_INFO_PORT"
                )
                await self.listeners.sync_own_ports(self.kv_door, self._note)
                return kv, engine
            except PortTaken as taken:
                await self.listeners.close(abrupt=True)
                if not patient or self.tenure.lost.is_set() or stop.is_set():
                    raise
                log.warning("waiting_for_port", problem=str(taken))
                await asyncio.sleep(0.1)

    def readiness(self) -> Reply:
        checks = {
            "lease": self.tenure.may_answer(),
            "rooms_loaded": self.rooms.loaded.is_set(),
            "not_stopping": not self.stopping,
        }
        body = {
            "status": "ready" if all(checks.values()) else "not ready",
            "checks": checks,
            "instances": len(self.fleet.by_id),
            "rooms": self.fleet.rooms.count,
            "connections": len(self.listeners.connections),
            "verdicts_paused": self.watch.paused,
            "probes": self.watch.pace,
        }
        return Reply(200 if all(checks.values()) else 503, msgspec.json.encode(body), PLAIN_JSON)

    def _published(self, staged: list[Staged]) -> None:
        if self.recorder.revision > self._announced:
            self._announced = self.recorder.revision
            self._wake.set()
        for stage in staged:
            self.fleet.reconsider(stage.instance)
            self.fleet.leases.publish(stage.leases)
            for address in stage.homes:
                other = self.fleet.hold(address, stage.instance)
                if other is not None:
                    self.recorder.submit(Doubt(other, address))
            if stage.probe or stage.again or stage.sessions or stage.sessions_again or stage.sources:
                self.watch.wanted(stage)

    async def _wake_readers(self) -> None:
        """Tell readers of the ledger, at most every WAKE_SECONDS; their own polling makes them certain."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._read(wake.publish, self._announced)
            await asyncio.sleep(WAKE_SECONDS)

    def _reload(self) -> None:
        """Only after a commit of unknown outcome: what is stored is what holds."""
        instances, _ = load_instances(self.policy)
        for fresh in instances:
            known = self.fleet.by_id.get(fresh.id)
            if known is not None:
                known.publish(fresh.directory, fresh.engines)
                self.fleet.reconsider(known)
        self.fleet.leases.load(load_leases())

    def _note(self, instance: Instance, kind: str, data: dict[str, object]) -> None:
        self.recorder.submit(Note(instance, kind, data))

    def _sync_ports(self) -> None:
        self._start(self.listeners.sync_own_ports(self.kv_door, self._note), "own ports")

    async def _until(self, stop: asyncio.Event, *, seconds: float | None = None) -> None:
        waits = [asyncio.create_task(stop.wait()), asyncio.create_task(self.tenure.lost.wait())]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _read(self, work: Callable[..., Any], *values: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.reads, work, *values)

    async def _end(self, listeners: Listeners | None, *, abrupt: bool) -> None:
        if listeners is not None:
            await listeners.close(abrupt=abrupt)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if hasattr(self, "recorder"):
            await self.observer.close()
            await self.watch.close()
            for part in (self.recorder, self.rooms, self.packer, self.inbox):
                part.close()
            self.checkpointer.stop()
        self.reads.shutdown(wait=False, cancel_futures=True)
        await self.tenure.end()

    def _start(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self.tasks.append(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.remove(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("task_died", task=task.get_name(), exc_info=task.exception())
            # Half a leader is worse than none: let the stand-by, or our next term, take over.
            self.tenure.lose()
