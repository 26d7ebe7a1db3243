"""A fleet in the database as the bootstrap process would have written it: real decisions, real writes, no sockets."""

import time

from controlplane.databases import FACTS
from controlplane.domain import orders
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Decision, Directory, Registration
from controlplane.domain.launch import Address
from controlplane.domain.observation import observe
from controlplane.domain.registration import register
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.ledger.store import FactStore
from controlplane.ledger.writes import Writes
from controlplane.models import Instance, Lease
from tests.controlplane.queries.rounds import all_run

HOST = "10.0.0.1"
FACTS_OF_ALL = SharedFacts(page_size=64, kv_cache_dtype="auto")


class World:
    """One instance's directory and its rows. `now` moves by hand; the lease is held by "test pid 1"."""

    def __init__(self, name: str = "prefill-a", *, ago: float = 60.0) -> None:
        self.now = time.time() - ago
        self.row = Instance.objects.using(FACTS).create(name=name, created_at=self.now)
        self.directory = Directory(name)
        self.store = FactStore(FACTS)
        self.term = 1
        Lease.objects.using(FACTS).filter(name="bootstrap").update(token=1, holder="test pid 1", expires_at=time.time())
        all_run()

    def put(
        self, slot: Slot, topology: Topology, *, port: int, token: str | None = None, flags=(), host: str = HOST
    ) -> None:
        put = Registration(slot, topology, FACTS_OF_ALL, host, port, None, token, flags)
        self._keep(register(self.directory, put, self.now))

    def probe(self, contact: Contact, *ports: int, host: str = HOST) -> None:
        verdicts: dict[Address, Contact] = {(host, port): contact for port in ports}
        self._keep(observe(self.directory, verdicts, self.now))

    def refuse(self, *ports: int) -> None:
        """Twice, as a verdict needs."""
        self.probe(Contact.REFUSED, *ports)
        self.now += 0.5
        self.probe(Contact.REFUSED, *ports)

    def launch(self, topology: Topology, *, first_port: int, skip: int = 0, token: str | None = None) -> list[int]:
        """Register all but the last `skip` slots and answer for them; their ports."""
        slots = list(topology.slots())
        ports = [first_port + place for place in range(len(slots) - skip)]
        for slot, port in zip(slots, ports, strict=False):
            self.put(slot, topology, port=port, token=token)
        self.probe(Contact.UP, *ports)
        return ports

    def end_flush(self) -> None:
        self._keep(orders.flushed(self.directory, now=self.now))

    def _keep(self, decision: Decision) -> None:
        assert decision.refused is None, decision.refused
        writes = Writes(term=self.term)
        writes.add(self.row.pk, self.row.name, decision, self.now)
        if writes:
            self.store.commit(self.term, writes)
        self.directory = decision.directory
