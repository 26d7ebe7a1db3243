"""The fleet in figures, for `/metrics/fleet`: instances, ranks, engines, drains, and those who choose workers.

From the tables alone, so every web process tells the same. What was retired, has ended or has left is in no series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from django.db.models import Count, Min, Q

from controlplane.databases import READER
from controlplane.domain.engine_health import State
from controlplane.domain.routable import Fact
from controlplane.ledger.tail import Cursor, head
from controlplane.metrics import of_fleet as names
from controlplane.metrics.metric import Sample
from controlplane.models import ALL_GROUPS, Breaker, Drain, EngineInfo, Gateway, Instance, Request, Router, WorkerLease

from .attention import observed_of
from .fleet import snapshot
from .memo import weighed
from .routable import RoutableRow, Weighed
from .totals import totals

MOST_ROWS = 1000
"""Drains, and gateways, that have a series of their own."""

ENGINE_WELL = {
    State.UP: 1,
    State.LATE: 1,
    State.STARTING: 0,
    State.SILENT: 0,
    State.DOWN: 0,
    State.STRANGER: 0,
}
ROLES = tuple(map(str, Instance.Role.values))


def fleet(*, now: float) -> list[Sample]:
    """All of it, as of one moment."""
    with snapshot():
        there, at = weighed(now=now), head()
        return [
            *_instances(there),
            *_engines(there.rows, now),
            *_drains(now),
            *_requests(now),
            *_choosers(at, now),
            Sample(names.CONFLICTS, EngineInfo.objects.using(READER).filter(state=EngineInfo.State.CONFLICT).count()),
            Sample(names.LEADER, int(there.fleet.leader.leads(now))),
            Sample(names.HEAD, at.revision),
        ]


def _instances(there: Weighed) -> Iterator[Sample]:
    wanted: Counter[tuple[str, str]] = Counter(
        {(role, intent): 0 for role in ROLES for intent in map(str, Instance.Intent.values)}
    )
    seen: Counter[tuple[str, str]] = Counter()
    routable: Counter[str] = Counter(dict.fromkeys(ROLES, 0))
    against: Counter[tuple[str, str]] = Counter({(role, str(fact)): 0 for role in ROLES for fact in Fact})
    for row in there.rows:
        wanted[row.role, row.instance.intent] += 1
        if row.instance.retired:
            continue
        seen[row.role, observed_of(row)] += 1
        routable[row.role] += row.routable
        if not row.routable:
            against[row.role, str(row.verdict.reasons[0].fact)] += 1
        yield Sample(names.INSTANCE_ROUTABLE, int(row.routable), (row.name, row.role))
    yield from (Sample(names.INSTANCES, count, labels) for labels, count in wanted.items())
    yield from (Sample(names.SEEN, count, labels) for labels, count in seen.items())
    yield from (Sample(names.ROUTABLE, count, (role,)) for role, count in routable.items())
    yield from (Sample(names.UNROUTABLE, count, labels) for labels, count in against.items())
    found = totals(there.rows)
    ranks = {
        "expected": found.ranks,
        "routable": found.routable,
        "away": found.wanted_away,
        "troubled": found.in_trouble,
    }
    yield from (Sample(names.RANKS, count, (state,)) for state, count in ranks.items())
    yield Sample(names.GROUPS, found.groups, ("known",))
    yield Sample(names.GROUPS, found.serving, ("serving",))


def _engines(rows: Iterable[RoutableRow], now: float) -> Iterator[Sample]:
    """Those that are asked, as long as somebody asks them."""
    states: Counter[str] = Counter({str(state): 0 for state in State})
    for row in rows:
        engine = row.instance.engine
        if row.instance.retired or not engine.at:
            continue
        states[engine.state] += 1
        if engine.is_old(now):
            continue
        if (well := ENGINE_WELL.get(State(engine.state))) is not None:
            yield Sample(names.ENGINE_UP, well, (row.name,))
        if engine.took is not None:
            yield Sample(names.ENGINE_SECONDS, engine.took, (row.name,))
    yield from (Sample(names.ENGINES, count, (state,)) for state, count in states.items())


def _drains(now: float) -> Iterator[Sample]:
    under_way = Drain.objects.using(READER).filter(ended_at=None)
    counts: Counter[str] = Counter(dict.fromkeys(("waiting", "empty", "drained", "overdue"), 0))
    counts.update(under_way.values_list("progress", flat=True))
    yield from (Sample(names.DRAINS, count, (progress,)) for progress, count in counts.items())
    oldest = under_way.order_by("started_at").values_list("instance", "group", "progress", "started_at")
    for instance, group, progress, at in oldest[:MOST_ROWS]:
        dp = "all" if group == ALL_GROUPS else str(group)
        yield Sample(names.DRAIN_AGE, max(0.0, now - at), (instance, dp, progress))


def _requests(now: float) -> Iterator[Sample]:
    waiting = Request.objects.using(READER).filter(answered_at=None).aggregate(count=Count("id"), first=Min("made_at"))
    yield Sample(names.REQUESTS, waiting["count"])
    yield Sample(names.REQUEST_AGE, max(0.0, now - waiting["first"]) if waiting["count"] else 0.0)


def _choosers(at: Cursor, now: float) -> Iterator[Sample]:
    states = Counter({"live": 0, "silent": 0})
    joined = Gateway.objects.using(READER).filter(left_at=None).order_by("-seen_at")
    for gateway in joined:
        silent = now - gateway.seen_at > gateway.lease_seconds
        states["silent" if silent else "live"] += 1
        if not silent and states["live"] <= MOST_ROWS:
            # Of another ledger it has acknowledged nothing.
            known = gateway.acknowledged_revision if gateway.acknowledged_ledger == at.ledger_id else 0
            yield Sample(names.GATEWAY_BEHIND, max(0, at.revision - known), (gateway.name,))
    yield from (Sample(names.GATEWAYS, count, (state,)) for state, count in states.items())
    left = Gateway.objects.using(READER).exclude(left_at=None).values("name")
    spoken = Breaker.objects.using(READER).exclude(gateway__in=left)
    breakers = Counter({"open": 0, "half_open": 0})
    breakers.update(spoken.exclude(state=Breaker.State.CLOSED).values_list("state", flat=True))
    yield from (Sample(names.BREAKERS, count, (state,)) for state, count in breakers.items())
    routers = Counter(dict.fromkeys(map(str, Router.State.values), 0))
    routers.update(Router.objects.using(READER).values_list("state", flat=True))
    yield from (Sample(names.ROUTERS, count, (state,)) for state, count in routers.items())
    leases = WorkerLease.objects.using(READER).aggregate(
        late=Count("worker", filter=~Q(late_since=None)), live=Count("worker", filter=Q(late_since=None))
    )
    yield from (Sample(names.WORKER_LEASES, leases[state], (state,)) for state in ("live", "late"))
