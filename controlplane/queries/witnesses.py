"""What is known about open drains, as the domain weighs it: who selects, who was registered, what witnesses said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from django.db import DatabaseError

from controlplane.databases import READER
from controlplane.domain import drain as domain
from controlplane.domain.admission import Admission, Cordon, Gateway, Router, Selectors, look
from controlplane.domain.drain import Evidence, Memory, Progress, State
from controlplane.domain.witness import ENGINE, GATEWAY, LEFT, WORKER, Reading, Watch, open_requests
from controlplane.ledger.tail import Cursor, head, latest
from controlplane.models import Drain, Instance, Launch, OpenRooms, RouterMember
from controlplane.models import Gateway as GatewayModel
from controlplane.models import Router as RouterModel
from controlplane.probes.loads import Load, Loads

from . import journal
from .fleet import snapshot
from .standing import scope

log = structlog.get_logger(__name__)

WORKER_LEASE_SECONDS = 15.0
ENGINE_LEASE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """One open drain: its row as it was read, and what the domain is to weigh."""

    row: Drain
    state: State
    seen: Evidence
    journal: journal.Position


def engines_of_open_drains() -> dict[str, tuple[str, str]]:
    """Whom to ask: URL and sealed API key, by instance."""
    names = Drain.objects.using(READER).filter(ended_at=None).values("instance")
    rows = Instance.objects.using(READER).filter(name__in=names).exclude(engine_url="")
    return {row.name: (row.engine_url, row.engine_key) for row in rows}


def own_ports() -> frozenset[int]:
    """Listeners of instances: an engine's URL must not lead back to our own doors."""
    ports = Instance.objects.using(READER).exclude(own_port=None).values_list("own_port", flat=True)
    return frozenset(port for port in ports if port is not None)


def cases(loads: Mapping[str, Loads], *, now: float) -> Iterator[Case]:
    """Every open drain with its evidence, as of one moment that is later than the readings in `loads`.

    One whose rooms cannot be read in time is left out, with a line in the log: the others need not wait for it.
    """
    with snapshot():
        rows = list(Drain.objects.using(READER).filter(ended_at=None).order_by("id"))
        if not rows:
            return
        known = _Known.read({row.instance_id for row in rows})
    newest = journal.newest()
    for row in rows:
        if row.instance_id not in known.instances:
            continue
        try:
            case = _case(row, known, loads.get(row.instance, Loads()), newest, now)
        except DatabaseError as problem:
            log.warning("drain_not_looked_at", drain=row.pk, instance=row.instance, problem=str(problem)[:300])
        else:
            yield case


def as_last_seen(id_: int, *, now: float) -> Case | None:
    """One open drain with what its engine said at the last look, and what others have said since; None when it has ended.

    Call it inside a snapshot. Of the rooms it knows what was found at that look.
    """
    row = Drain.objects.using(READER).filter(pk=id_, ended_at=None).first()
    known = _Known.read({row.instance_id} if row is not None else set())
    if row is None or row.instance_id not in known.instances:
        return None
    seen: dict[str, Any] = msgspec.json.decode(row.seen)
    loads = [
        Load(said["dp"], said["taken_at"], "", said["counts"])
        for said in seen.get("readings", ())
        if said["kind"] == ENGINE
    ]
    upto = journal.Position.read(seen.get("journal", {})).upto
    return _case(row, known, Loads(tuple(loads), seen.get("engine_problem", "")), upto, now)


def selectors(instance: str) -> Selectors:
    """Who chooses workers and could choose this one. Call it inside a snapshot."""
    return _selectors([instance])[instance]


def admission_of(name: str, group: int, *, now: float) -> Admission:
    """Who has stopped since the intent of an instance or DP group was changed last."""
    with snapshot():
        chosen = selectors(name)
        said = [e for e in latest(50, instance=name, kinds=["intent.changed"]) if e.data["dp"] in (None, scope(group))]
    # Changed so long ago that other changes have pushed it out of sight: whoever follows the ledger at all has read it.
    revision, at = (said[-1].revision, said[-1].at) if said else (0, 0.0)
    return look(Cordon(chosen.ledger_id, revision, at, scope(group)), chosen, now=now)


@dataclass(frozen=True, slots=True)
class Registered:
    number: int
    groups: int
    token: str | None
    opened_at: float


@dataclass(frozen=True, slots=True)
class _Known:
    instances: Mapping[int, Instance]
    launches: Mapping[int, Registered]
    selectors: Mapping[str, Selectors]
    reports: Mapping[str, list[OpenRooms]]

    @staticmethod
    def read(ids: set[int]) -> _Known:
        instances = Instance.objects.using(READER).in_bulk(ids)
        names = [instance.name for instance in instances.values()]
        reports: dict[str, list[OpenRooms]] = defaultdict(list)
        for row in OpenRooms.objects.using(READER).filter(instance__in=names).order_by("kind", "source", "group"):
            reports[row.instance].append(row)
        return _Known(instances, registered(ids), _selectors(names), reports)


def registered(ids: Iterable[int]) -> dict[int, Registered]:
    """The current launch of each instance that has one."""
    rows = Launch.objects.using(READER).filter(instance_id__in=ids, state=Launch.State.CURRENT, ended_at=None)
    return {row.instance_id: Registered(row.number, row.dp, row.token, row.opened_at) for row in rows}


def _selectors(names: Sequence[str]) -> dict[str, Selectors]:
    at: Cursor = head()
    gateways = [
        Gateway(g.name, g.seen_at, g.lease_seconds, g.acknowledged_ledger, g.acknowledged_revision, g.registered_at)
        for g in GatewayModel.objects.using(READER).filter(left_at=None).order_by("name")
    ]
    routers = RouterModel.objects.using(READER).in_bulk()
    members: dict[str, list[Router]] = defaultdict(list)
    for member in RouterMember.objects.using(READER).filter(instance__in=names).order_by("router_id"):
        router = routers.get(member.router_id)
        if router is not None:
            answers = router.state != RouterModel.State.AWAY
            members[member.instance].append(Router(router.name, member.present, answers, router.checked_at))
    return {name: Selectors(at.ledger_id, at.revision, gateways, members[name]) for name in names}


def _case(row: Drain, known: _Known, loads: Loads, newest: int, now: float) -> Case:
    instance = known.instances[row.instance_id]
    launch = known.launches.get(row.instance_id)
    chosen = known.selectors[instance.name]
    group = scope(row.group)
    seen: dict[str, Any] = msgspec.json.decode(row.seen)
    state = State(
        Cordon(row.cordon_ledger, row.cordon_revision, row.started_at, group),
        Progress(row.progress),
        row.launch,
        row.deadline_at,
        Memory.read(seen),
    )
    at = journal.follow(
        journal.Position.read(seen.get("journal", {})), row.instance_id, group, row.rooms_mark, newest, now
    )
    leases = {gateway.name: gateway.lease_seconds for gateway in chosen.gateways}
    evidence = Evidence(
        chosen,
        launch.number if launch else None,
        launch.groups if launch else None,
        Watch(
            bool(instance.engine_url),
            tuple(leases),
            others_send=bool(chosen.routers),
            exact=bool(instance.engine_url) and group is not None,
        ),
        (*_of_engine(loads, str(instance.role)), *_of_reports(known.reports.get(instance.name, ()), launch, leases)),
        at.rooms,
        registers=instance.role == Instance.Role.PREFILL,
    )
    return Case(row, state, evidence, at)


def _of_engine(loads: Loads, role: str) -> Iterable[Reading]:
    for load in loads.loads:
        found = open_requests(role, load.counts)
        yield Reading(ENGINE, "", load.dp, load.taken_at, load.mark, found, load.counts, ENGINE_LEASE_SECONDS)


def _of_reports(rows: Iterable[OpenRooms], launch: Registered | None, leases: Mapping[str, float]) -> Iterable[Reading]:
    for row in rows:
        if row.kind == OpenRooms.Kind.GATEWAY:
            # One that has left has no say any more, but what it left open is open until somebody else knows better.
            gone = row.source not in leases
            if gone and (not row.open_rooms or (launch is not None and _of_another_launch(row, launch))):
                continue
            kind, lease = (LEFT, 0.0) if gone else (GATEWAY, leases[row.source])
        else:
            if launch is not None and _of_another_launch(row, launch):
                continue
            kind, lease = WORKER, WORKER_LEASE_SECONDS
        counts = {"open_rooms": row.open_rooms}
        yield Reading(
            kind, row.source, scope(row.group), row.taken_at, repr(row.received_at), row.open_rooms, counts, lease
        )


def _of_another_launch(row: OpenRooms, launch: Registered) -> bool:
    if row.launch_token and launch.token:
        return row.launch_token != launch.token
    return row.taken_at < launch.opened_at


def evaluate(case: Case, *, now: float) -> domain.Verdict:
    return domain.evaluate(case.state, case.seen, now=now)
