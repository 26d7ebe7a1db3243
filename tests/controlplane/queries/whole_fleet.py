"""A fleet on which everything can happen that writes to the ledger: operators' commands, gateways, the recorder's path.

Whatever is asked for is really done, by the code that does it in production; a refusal is an answer like any other.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from django.contrib.auth import get_user_model

from controlplane.access import tokens
from controlplane.bootstrap import registry
from controlplane.bootstrap.complaints import Note
from controlplane.bootstrap.fleet import Fleet
from controlplane.bootstrap.fleet import Instance as Held
from controlplane.bootstrap.heartbeats import Beat
from controlplane.bootstrap.lateness import Expire
from controlplane.bootstrap.operations import Flushed, Observe, Ordered, PublishEngine, Register
from controlplane.bootstrap.purging import Purge
from controlplane.bootstrap.recorder import Operation, Staged
from controlplane.commands import alarms, drains, gateways, instances, intent, purging, reports, requests, routers
from controlplane.commands.keeping_health import Change, keep
from controlplane.commands.transaction import record
from controlplane.databases import FACTS
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Directory, Registration
from controlplane.domain.engine_health import Memory, State, Why
from controlplane.domain.errors import Refused
from controlplane.domain.reports import BreakerReport
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.ledger.store import FactStore
from controlplane.ledger.writes import Writes
from controlplane.models import Alarm, EngineHealth, Instance, Lease, LedgerHead, MachineToken, Router
from controlplane.protocol.engine_info import Publication
from controlplane.protocol.heartbeat import Heartbeat
from controlplane.queries import attention, memo
from controlplane.queries.engine_health import memory_of

HOST = "10.0.0.1"
ACTOR = "anna"


class WholeFleet:
    """`did` collects what was asked, for the message of a test that fails."""

    def __init__(self) -> None:
        self.store = FactStore(FACTS)
        self.held: dict[str, Held] = {}
        self.fleet = Fleet(room_limit=1)
        self.heard_at = 0.0
        self.fleet.leases._clock = lambda: self.heard_at
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

    def alarm(self) -> None:
        """Nobody leads, somebody looks after that, and then somebody leads again."""

        def whole_story() -> None:
            for seconds, leads in ((0, False), (6, False), (9, True), (30, True)):
                at = self.now + 100 + seconds
                Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=at if leads else self.now)
                memo.forget()
                attention.forget()
                alarms.watch(at)
                if seconds == 6:
                    (raised,) = Alarm.objects.using(FACTS).filter(raised_at__isnull=False, kind="events")
                    alarms.acknowledge(raised.pk, actor=ACTOR, reason="why")
            Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=self.now)

        self.ask("an alarm comes and goes", whole_story)

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

    def purge(self, name: str, *, override: bool = False) -> None:
        def work() -> None:
            number = purging.purge(name, override=override, actor=ACTOR, reason="gone for good")
            held = self._known(name)
            held.intent = Instance.objects.using(FACTS).get(name=name).intent
            launches = held.directory.launches()
            alive = sum(row.contact is Contact.UP for launch in launches for row in launch.rows.values())
            said = {"request": number, "override": override, "answering": alive}
            said |= {"actor": ACTOR, "reason": "gone for good"}
            self._commit(held, Purge(held, **said))
            if not Instance.objects.using(FACTS).filter(name=name).exists():
                del self.held[name]

        self.ask(f"purge {name} {override}", work)

    def purge_archive(self) -> None:
        said = {"actor": ACTOR, "older_than": 0.0, "now": time.time() + 3600}
        self.ask("purge the archive", partial(purging.purge_archive, **said))

    def beat(self, name: str, worker: str, *slots: Slot, token: str | None = None) -> None:
        said = Heartbeat(worker, slots, token, 5.0)
        self._do(f"{worker} of {name} beats", name, lambda i: Beat(i, said, self.fleet))

    def expire(self, worker: str) -> None:
        """Nothing was heard from it within its lease."""
        lease = self.fleet.leases.get(worker)
        if lease is not None:
            name = self.fleet.by_id[lease.instance].name
            self.heard_at += lease.seconds
            self._do(f"{worker} is silent", name, lambda i: Expire(i, lease, self.fleet.leases))

    def engine(self, name: str, state: str, why: str = "", **said: str) -> None:
        """What the prober stores of its engine's own HTTP server."""

        def work() -> None:
            row = Instance.objects.using(FACTS).filter(name=name).first()
            if row is None:
                return
            kept = EngineHealth.objects.using(FACTS).filter(instance_id=row.pk).first()
            before = memory_of(kept) if kept is not None else Memory("http://engine.example")
            after = replace(
                before,
                state=State(state),
                why=Why(why) if why else None,
                identity=str(said),
                said=said,
                asked_at=self.now,
            )
            change = Change(row.pk, name, before, after, kept.version if kept is not None else 0)
            assert keep([change]) == {row.pk}

        self.ask(f"engine {name} {state} {why} {said}", work)

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
        self.fleet.leases.publish(staged.leases)

    def _known(self, name: str) -> Held | None:
        if name not in self.held:
            row = Instance.objects.using(FACTS).filter(name=name).first()
            if row is None:
                return None
            self.held[name] = self.fleet.by_id[row.pk] = Held(row.pk, name, directory=Directory(name))
        return self.held[name]


def _heard(refused: Refused) -> None:
    raise refused
