"""A fleet on which everything can happen that writes to the ledger: operators' commands, gateways, the recorder's path.

Whatever is asked for is really done, by the code that does it in production; a refusal is an answer like any other.
"""

import time
from collections.abc import Callable
from functools import partial

from django.contrib.auth import get_user_model

from controlplane.access import tokens
from controlplane.bootstrap import registry
from controlplane.bootstrap.complaints import Note
from controlplane.bootstrap.fleet import Instance as Held
from controlplane.bootstrap.operations import Flushed, Observe, Ordered, PublishEngine, Register
from controlplane.bootstrap.recorder import Operation, Staged
from controlplane.commands import drains, gateways, instances, intent, reports, requests, routers
from controlplane.commands.transaction import record
from controlplane.databases import FACTS
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Directory, Registration
from controlplane.domain.errors import Refused
from controlplane.domain.reports import BreakerReport
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.ledger.store import FactStore
from controlplane.ledger.writes import Writes
from controlplane.models import Instance, Lease, LedgerHead, MachineToken, Router
from controlplane.protocol.engine_info import Publication

HOST = "10.0.0.1"
ACTOR = "anna"


class WholeFleet:
    """`did` collects what was asked, for the message of a test that fails."""

    def __init__(self) -> None:
        self.store = FactStore(FACTS)
        self.held: dict[str, Held] = {}
        self.now = time.time()
        self.did: list[str] = []
        Lease.objects.using(FACTS).filter(name="bootstrap").update(token=1, holder="test pid 1", expires_at=self.now)

    def ask(self, what: str, work: Callable[[], object]) -> None:
        self.now += 0.4
        try:
            work()
        except Refused as refused:
            what += f" -> refused: {refused.sentence}"
        self.did.append(what)

    # --- operators -------------------------------------------------------------------------------------------

    def add(self, name: str, role: str = "prefill", *, port: int | None = None) -> None:
        self.ask(
            f"add {name} {role} {port}",
            partial(instances.add, name, role=role, own_port=port, actor=ACTOR),
        )

    def edit(self, name: str, **changes: object) -> None:
        self.ask(f"edit {name} {changes}", partial(instances.edit, name, actor=ACTOR, **changes))

    def operate(self, action: str, name: str, group: int = -1) -> None:
        commands = {
            "cordon": intent.cordon,
            "uncordon": intent.uncordon,
            "drain": drains.drain,
            "cancel": drains.cancel,
            "hold": partial(drains.cancel, to="cordoned"),
            "force": drains.force,
        }
        self.ask(f"{action} {name} {group}", partial(commands[action], name, group=group, actor=ACTOR, reason="why"))

    def retire(self, name: str) -> None:
        self.ask(f"retire {name}", partial(instances.retire, name, actor=ACTOR))

    def look_at_drains(self) -> None:
        # No engine has a URL here, so nobody can say what is open, and that is what is seen.
        self.ask("look at drains", drains.check)

    def request(self, kind: str, name: str) -> None:
        self.ask(f"request {kind} {name}", partial(requests.make, kind, name, actor=ACTOR))

    def token(self, name: str) -> None:
        def make_and_revoke() -> None:
            user, _ = get_user_model().objects.using(FACTS).get_or_create(username=ACTOR)
            tokens.make(name, ["read"], "", None, user)
            newest = MachineToken.objects.using(FACTS).order_by("-created").first()
            assert newest is not None
            tokens.revoke(newest.token_key, ACTOR)

        self.ask(f"token {name}", make_and_revoke)

    # --- those who choose workers ----------------------------------------------------------------------------

    def join(self, name: str, url: str = "") -> None:
        self.ask(f"join {name} {url}", partial(gateways.join, name, url))

    def leave(self, name: str) -> None:
        self.ask(f"leave {name}", partial(gateways.leave, name))

    def acknowledge(self, name: str) -> None:
        head = LedgerHead.objects.using(FACTS).get(id=1)
        self.ask(f"acknowledge {name}", partial(gateways.acknowledge, name, head.ledger_id, head.revision))

    def breaker(self, by: str, instance: str, state: str, group: int | None = None) -> None:
        item = {"instance": instance, "state": state, "dp": group, "reason": "5 of 6 failed"}
        self.ask(f"breaker {by} {instance} {state} {group}", partial(gateways.report_breakers, by, [item]))

    def open_rooms(self, by: str, instance: str, count: int) -> None:
        item = {"instance": instance, "dp": 0, "open_rooms": count, "age_seconds": 0}
        self.ask(f"open rooms {by} {instance} {count}", partial(gateways.report_open_rooms, "gateway", by, [item]))

    def router(self, action: str, name: str, *names: str) -> None:
        url = f"http://{name}.example:30080"
        work: Callable[[], object] = partial(routers.remove, name, actor=ACTOR)
        if action == "add":
            work = partial(routers.add, name, url, names, actor=ACTOR)
        elif action == "edit":
            work = partial(routers.edit, name, instances=names, actor=ACTOR)
        self.ask(f"router {action} {name} {names}", work)

    def router_breaker(self, name: str, instance: str, state: str) -> None:
        def turn() -> tuple[None, list]:
            known = Router.objects.using(FACTS).filter(name=name).exists()
            report = {(instance, -1): BreakerReport(instance, -1, state, 0.0, "")}
            return None, reports.turn(f"router:{name}", report, at=self.now) if known else []

        self.ask(f"router breaker {name} {instance} {state}", partial(record, turn))

    # --- the bootstrap process -------------------------------------------------------------------------------

    def register_itself(self, name: str) -> None:
        self.ask(f"{name} registers itself", lambda: self.store.transact(1, lambda c: registry._add(c, name)))

    def put(
        self,
        name: str,
        slot: Slot,
        topology: Topology,
        port: int,
        *,
        token: str | None = None,
        layout: str | None = None,
    ) -> None:
        put = Registration(slot, topology, SharedFacts(64, "auto", layout), HOST, port, None, token)
        self._do(f"put {name} {slot} of {topology} @{port} {token}", name, lambda i: Register(i, put, HOST, _heard))

    def launch(self, name: str, topology: Topology, first_port: int, **said: object) -> None:
        for place, slot in enumerate(topology.slots()):
            self.put(name, slot, topology, first_port + place, **said)
        self.observe(name, Contact.UP, *range(first_port, first_port + topology.size))

    def observe(self, name: str, contact: Contact, *ports: int) -> None:
        heard = {(HOST, port): contact for port in ports}
        self._do(f"{name} {contact} @{ports}", name, lambda i: Observe(i, heard))

    def publish(self, name: str, rank: int, session: str, digest: str) -> None:
        said = Publication(rank, True, session, digest, 1, 8, 2, b"{}")
        self._do(f"publish {name} {rank} {session} {digest}", name, lambda i: PublishEngine(i, said, probeable=True))

    def observe_sessions(self, name: str, contact: Contact, *sessions: str) -> None:
        heard = dict.fromkeys(sessions, contact)
        self._do(f"{name} sessions {contact} {sessions}", name, lambda i: Observe(i, {}, heard))

    def flushed(self, name: str) -> None:
        self._do(f"flushed {name}", name, Flushed)

    def order(self, name: str, kind: str, slot: Slot | None = None) -> None:
        said = {"request": 0, "kind": kind, "slot": slot, "actor": ACTOR, "reason": "", "puts": [], "note": "nobody"}
        said["told"] = False
        self._do(f"order {kind} {name} {slot}", name, lambda i: Ordered(i, **said))

    def note(self, name: str, kind: str, **data: object) -> None:
        self._do(f"note {kind} {name}", name, lambda i: Note(i, kind, data))

    def _do(self, what: str, name: str, operation: Callable[[Held], Operation]) -> None:
        def work() -> None:
            held = self._known(name)
            if held is not None:
                self._commit(held, operation(held))

        self.ask(what, work)

    def _commit(self, held: Held, operation: Operation) -> None:
        staged, writes = Staged(held, held.directory, held.engines), Writes(1)
        operation.decide(staged, writes, self.now)
        if writes:
            self.store.commit(1, writes)
        held.publish(staged.directory, staged.engines)

    def _known(self, name: str) -> Held | None:
        if name not in self.held:
            row = Instance.objects.using(FACTS).filter(name=name).first()
            if row is None:
                return None
            self.held[name] = Held(row.pk, name, directory=Directory(name))
        return self.held[name]


def _heard(refused: Refused) -> None:
    raise refused
