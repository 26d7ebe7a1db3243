"""One instance, kept as the bootstrap process keeps it: every decision is stored, followed by a reader, comparable.

Operations, writes, the store and the loading are the real ones, on SQLite; only the event loop between them is left out.
"""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import count

from django.db import connections

from controlplane.bootstrap.fleet import Instance
from controlplane.bootstrap.loading import load_instances
from controlplane.bootstrap.operations import Flushed, Observe, Ordered, PublishEngine, Register
from controlplane.bootstrap.recorder import Operation, Staged
from controlplane.databases import FACTS
from controlplane.domain import snapshot
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Directory, Registration
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Address
from controlplane.domain.topology import Slot
from controlplane.ledger.store import FactStore
from controlplane.ledger.writes import Writes
from controlplane.probes import mooncake
from controlplane.probes.networks import ProbePolicy
from controlplane.protocol.engine_info import Publication

ADD = """
INSERT INTO controlplane_instance (name, role, intent, created_at, next_launch, debt_hold)
VALUES (%s, 'prefill', 'enabled', 0, 1, %s) RETURNING id"""
OF_INSTANCE = ("controlplane_launch", "controlplane_rank", "controlplane_engineinfo")
HEAD = "SELECT revision FROM controlplane_ledgerhead WHERE id = 1"
EVENTS = "SELECT revision, kind, data FROM controlplane_event WHERE instance = %s AND revision > %s ORDER BY revision"

_names = (f"kept-{n}" for n in count(1))


class Keeper:
    """The recorder's path for one instance, a batch per operation. Needs migrated databases; times are epoch seconds."""

    def __init__(self) -> None:
        self.store = FactStore(FACTS)
        self.name = next(_names)
        with connections[FACTS].cursor() as cursor:
            cursor.execute(ADD, (self.name, False))
            self.id = cursor.fetchone()[0]
            cursor.execute(HEAD)
            self.revision = cursor.fetchone()[0]
            cursor.execute("SELECT token FROM controlplane_lease WHERE name = 'bootstrap'")
            self.token = cursor.fetchone()[0]
        self.instance = Instance(self.id, self.name, directory=Directory(self.name))
        self.followed = snapshot.take(self.directory, self.instance.engines)
        self.kinds: list[str] = []
        self.wanted: dict[Address, float] = {}
        self.sessions: set[str] = set()

    @property
    def directory(self) -> Directory:
        return self.instance.directory

    def put(self, put: Registration, now: float) -> Refused | None:
        return self.put_many([put], now)[0]

    def put_many(self, puts: Iterable[Registration], now: float) -> list[Refused | None]:
        """Registrations that arrive while a transaction runs, and so share the next one."""
        refused: dict[int, Refused] = {}
        operations: list[Operation] = [
            Register(self.instance, put, "10.0.0.1", partial(refused.__setitem__, number))
            for number, put in enumerate(puts)
        ]
        self.do(operations, now)
        return [refused.get(number) for number in range(len(operations))]

    def observe(self, verdicts: Mapping[Address, Contact], now: float) -> None:
        self.do([Observe(self.instance, dict(verdicts))], now)

    def observe_sessions(self, verdicts: Mapping[str, Contact], now: float) -> None:
        self.do([Observe(self.instance, {}, dict(verdicts))], now)

    def publish_engine(self, rank: int, session: str, digest: str, now: float, *, old_style: bool = True) -> None:
        publication = Publication(rank, old_style, session, digest, 1, 8, 2, b"{}")
        probeable = mooncake.may_ask(ProbePolicy(), session)
        self.do([PublishEngine(self.instance, publication, probeable=probeable)], now)

    def flushed(self, now: float) -> None:
        self.do([Flushed(self.instance)], now)

    def order(self, kind: str, now: float, slot: Slot | None = None) -> None:
        asked = Ordered(
            self.instance,
            request=0,
            kind=kind,
            slot=slot,
            actor="op",
            reason="",
            puts=[],
            note="nobody answered",
            told=False,
        )
        self.do([asked], now)

    def do(self, batch: list[Operation], now: float) -> None:
        """Decide, store, publish, and let the reader of the ledger follow."""
        staged, writes = Staged(self.instance, self.directory, self.instance.engines), Writes(self.token)
        published = snapshot.take(self.directory)
        for operation in batch:
            try:
                operation.decide(staged, writes, now)
            except Refused as refused:
                operation.refuse(refused)
        assert snapshot.take(self.directory) == published, "a decision changed what look-ups read, before its commit"
        if writes:
            self.store.commit(self.token, writes)
        self.instance.publish(staged.directory, staged.engines)
        for address in staged.probe:
            self.wanted[address] = now
        for address in staged.again:
            self.wanted[address] = now + 0.32
        self.sessions |= staged.sessions
        self.follow()

    def follow(self) -> None:
        with connections[FACTS].cursor() as cursor:
            cursor.execute(EVENTS, (self.name, self.revision))
            for self.revision, kind, data in cursor.fetchall():
                self.kinds.append(kind)
                self.followed = snapshot.apply(self.followed, kind, json.loads(data))

    def stored(self) -> Instance:
        """What a new process would load now."""
        return next(instance for instance in load_instances(ProbePolicy())[0] if instance.id == self.id)

    def restart(self) -> None:
        """Our own restart: what was stored is what holds; pending questions are forgotten."""
        self.instance = self.stored()
        self.wanted.clear()
        self.sessions.clear()
        self.followed = snapshot.take(self.directory, self.instance.engines)

    def forget(self) -> None:
        """Leave nothing behind for the next example."""
        with connections[FACTS].cursor() as cursor:
            for table in OF_INSTANCE:
                cursor.execute(f"DELETE FROM {table} WHERE instance_id = %s", (self.id,))
            cursor.execute("DELETE FROM controlplane_event WHERE instance = %s", (self.name,))
            cursor.execute("DELETE FROM controlplane_instance WHERE id = %s", (self.id,))
