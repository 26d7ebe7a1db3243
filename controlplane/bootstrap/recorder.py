"""Group commit of facts: whatever arrived while the last transaction ran goes into the next one.

An operation decides when its batch begins, against the state that the operations before it have staged. Values are
published, and replies go out, after the commit; so nobody reads, and nobody is told, what is not stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog
from django.db import OperationalError

from controlplane.domain.directory import Decision, Directory
from controlplane.domain.engines import EngineTable
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Address, Workspace
from controlplane.domain.worker_leases import WorkerLease
from controlplane.ledger.failures import FencedOut, OutcomeUnknown
from controlplane.ledger.store import FactStore
from controlplane.ledger.writes import Writes
from controlplane.protocol.replies import OK, Reply, refusal, text

from .breath import Breath
from .commits import AWAY, BROKEN, UNKNOWN, Commits
from .fleet import Instance

log = structlog.get_logger()

NOT_STORED = text(503, "the control plane could not store this; nothing was changed, try again")


@dataclass(slots=True)
class Staged:
    """An instance as the operations of one batch have left it so far."""

    instance: Instance
    directory: Directory
    engines: EngineTable
    probe: set[Address] = field(default_factory=set)
    again: set[Address] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    sessions_again: set[str] = field(default_factory=set)
    sources: dict[Address, str] = field(default_factory=dict)
    homes: set[Address] = field(default_factory=set)
    workspace: Workspace = field(default_factory=dict)
    # By worker; None: forgotten.
    leases: dict[str, WorkerLease | None] = field(default_factory=dict)

    def apply(self, decision: Decision, writes: Writes, now: float, *, actor: str = "", reason: str = "") -> None:
        self.directory = decision.directory
        writes.add(self.instance.id, self.instance.name, decision, now, actor=actor, reason=reason)
        self.probe |= decision.probe
        self.again |= decision.again


class Operation:
    """One request to change an instance. `decide` stages its effect and sets `reply`; it may run more than once."""

    __slots__ = ("instance", "reply")

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.reply: Reply = OK

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        raise NotImplementedError

    def refuse(self, refused: Refused) -> None:
        """The answer when `decide` raised: what the KV wire says, unless an operation knows better."""
        self.reply = refusal(refused)


def _not_stored(operations: list[Operation]) -> None:
    for operation in operations:
        operation.reply = NOT_STORED


class Recorder:
    """Runs batches, one after another. Times are epoch seconds."""

    def __init__(
        self,
        store: FactStore,
        *,
        published: Callable[[list[Staged]], None],
        reload: Callable[[], None],
        fenced_out: Callable[[], None],
        pause_seconds: float = 0.0,
    ) -> None:
        self._store = store
        self._published = published
        self._reload = reload
        self._fenced_out = fenced_out
        self._breath = Breath(pause_seconds)
        self.thread = ThreadPoolExecutor(1, "recorder")
        self._pending: list[Operation] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrived = asyncio.Event()
        self.token = 0
        self.revision = 0
        self.batches = 0
        self.operations = 0
        self.commits = Commits()

    def submit(self, operation: Operation) -> asyncio.Future[None]:
        """Queue an operation. Its `reply` counts once the returned future is done (shared by its whole batch)."""
        self._pending.append(operation)
        self._arrived.set()
        return self._done

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            batch, self._pending = self._pending, []
            done, self._done = self._done, loop.create_future()
            try:
                await self._record(batch)
            except FencedOut:
                # Those who wait get no answer: their connections are closed.
                done.cancel()
                self._fenced_out()
                return
            except Exception:
                log.exception("recorder_failed", operations=len(batch))
                self.commits.failed(BROKEN, not_stored=len(batch))
                for operation in batch:
                    operation.reply = NOT_STORED
            self.batches += 1
            self.operations += len(batch)
            done.set_result(None)
            await self._breath.take()

    async def _record(self, batch: list[Operation]) -> None:
        try:
            await self._attempt(batch)
            return
        except FencedOut:
            raise
        except OutcomeUnknown:
            log.error("commit_outcome_unknown", operations=len(batch))
            self.commits.failed(UNKNOWN)
            await self._reload_until_done()
        except OperationalError as problem:
            # The database is locked or away: that is nobody's poison, and trying one by one would only take longer.
            log.warning("database_away", operations=len(batch), problem=str(problem)[:300])
            self.commits.failed(AWAY, not_stored=len(batch))
            _not_stored(batch)
            return
        except Exception as problem:
            log.warning("batch_failed", operations=len(batch), problem=str(problem)[:300])
            self.commits.failed(BROKEN)
        # One by one, so that a poisoned row fails alone.
        for number, operation in enumerate(batch):
            try:
                await self._attempt([operation])
            except FencedOut:
                raise
            except OutcomeUnknown:
                self.commits.failed(UNKNOWN, not_stored=1)
                await self._reload_until_done()
                operation.reply = NOT_STORED
            except OperationalError as problem:
                log.warning("database_away", operations=len(batch) - number, problem=str(problem)[:300])
                self.commits.failed(AWAY, not_stored=len(batch) - number)
                _not_stored(batch[number:])
                return
            except Exception as problem:
                log.warning("operation_failed", instance=operation.instance.name, problem=str(problem)[:300])
                self.commits.failed(BROKEN, not_stored=1)
                operation.reply = NOT_STORED

    async def _reload_until_done(self) -> None:
        """What memory holds may not be what is stored: nothing goes on before it is read again."""
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self.thread, self._reload)
                return
            except Exception as problem:
                log.warning("reload_failed", problem=str(problem)[:300])
                await asyncio.sleep(0.5)

    async def _attempt(self, batch: list[Operation]) -> None:
        now = time.time()
        staged: dict[int, Staged] = {}
        writes = Writes(self.token)
        for operation in batch:
            instance = operation.instance
            stage = staged.get(instance.id)
            if stage is None:
                stage = staged[instance.id] = Staged(instance, instance.directory, instance.engines)
            try:
                operation.decide(stage, writes, now)
            except Refused as refused:
                operation.refuse(refused)
        if writes:
            loop = asyncio.get_running_loop()
            began = time.monotonic()
            with self._breath.holding():
                head = await loop.run_in_executor(self.thread, self._store.commit, self.token, writes)
            self.commits.stored(len(batch), time.monotonic() - began)
            self.revision = max(self.revision, head)
        for stage in staged.values():
            stage.instance.publish(stage.directory, stage.engines)
        self._published(list(staged.values()))

    def close(self) -> None:
        """Whoever still waits is let go without an answer."""
        self._done.cancel()
        self.thread.shutdown(wait=False, cancel_futures=True)
