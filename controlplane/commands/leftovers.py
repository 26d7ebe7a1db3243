"""What stays behind of instances that are retired or purged, and of what ended long ago: taken away, and counted.

Only what has ended is touched, by its place in time; whatever the state of the fleet speaks of goes with its event.
"""

from __future__ import annotations

import structlog
from django.db.models import Exists, Model, OuterRef

from controlplane.databases import FACTS, READER
from controlplane.domain.errors import Refused
from controlplane.ledger.append import NewEvent
from controlplane.models import (
    ALL_GROUPS,
    Breaker,
    Drain,
    EngineHealth,
    EngineInfo,
    GroupIntent,
    Instance,
    OpenRooms,
    Request,
    Router,
    RouterMember,
    Suspicion,
    WorkerLease,
)

from . import routers
from .keeping import before, keeping
from .transaction import record
from .trimming import Budget, count, delete

log = structlog.get_logger(__name__)

ACTOR = "retention"
AT_ONCE = 200

# No instance is called so, or only one that was retired before that moment.
RETIRED = """NOT EXISTS (SELECT 1 FROM controlplane_instance i WHERE i.name = {table}.instance
 AND (i.intent <> 'retired' OR i.retired_at >= %s))"""
PURGED = "NOT EXISTS (SELECT 1 FROM controlplane_instance i WHERE i.id = {table}.instance_id)"
# The last of a rank stays: the number of the next one follows from it.
OLD_SESSIONS = """state = 'retired' AND ended_at < %s AND epoch < (SELECT MAX(o.epoch) FROM controlplane_engineinfo o
 WHERE o.instance_id = controlplane_engineinfo.instance_id AND o.rank = controlplane_engineinfo.rank)"""

OF_PURGED: tuple[tuple[str, type[Model], str], ...] = (
    ("worker leases", WorkerLease, "worker"),
    ("engine health", EngineHealth, "instance_id"),
    ("suspicions", Suspicion, "id"),
    ("group intents", GroupIntent, "id"),
    ("sessions", EngineInfo, "id"),
)
"""What knows instances by number only: table and key."""


def sweep(*, now: float, budget: Budget | None = None) -> dict[str, int]:
    """One round; how many went, by subject."""
    spent = budget or Budget()
    keep = keeping()
    gone: dict[str, int] = {}
    retired_before = before(now, keep.leftovers)
    if retired_before is not None:
        gone |= _of_retired(retired_before, spent)
    ended_before = before(now, keep.operations)
    if ended_before is not None:
        gone |= _ended(ended_before, spent)
    return {subject: count(subject, number, now=now) for subject, number in gone.items() if number}


def _of_retired(retired_before: float, budget: Budget) -> dict[str, int]:
    gone = {"breakers": _close_breakers(retired_before, budget), "router members": _leave_routers(retired_before)}
    table = OpenRooms._meta.db_table
    gone["open rooms"] = delete(table, RETIRED.format(table=table), [retired_before], budget=budget)
    for subject, model, key in OF_PURGED:
        table = model._meta.db_table
        gone[subject] = delete(table, PURGED.format(table=table), [], budget=budget, key=key)
    return gone


def _ended(ended_before: float, budget: Budget) -> dict[str, int]:
    tables = {
        "requests": (Request, "answered_at < %s"),
        "drains": (Drain, "ended_at < %s"),
        "ended sessions": (EngineInfo, OLD_SESSIONS),
    }
    return {
        subject: delete(model._meta.db_table, where, [ended_before], budget=budget)
        for subject, (model, where) in tables.items()
    }


def _close_breakers(retired_before: float, budget: Budget) -> int:
    """Those that are open are part of the fleet's state: they close with an event."""
    there = Instance.objects.filter(name=OuterRef("instance")).exclude(
        intent=Instance.Intent.RETIRED, retired_at__lt=retired_before
    )
    rows = Breaker.objects.using(FACTS).filter(~Exists(there))
    found = list(rows.exclude(state=Breaker.State.CLOSED).order_by("id")[:AT_ONCE])

    def work() -> tuple[None, list[NewEvent]]:
        events = []
        for row in found:
            # Compared with what was read: its gateway may have spoken meanwhile.
            if not Breaker.objects.using(FACTS).filter(pk=row.pk, state=row.state).delete()[0]:
                continue
            dp = None if row.group == ALL_GROUPS else row.group
            data = {"gateway": row.gateway, "dp": dp, "before": row.state, "after": "closed"}
            reason = f"{row.instance} is retired"
            events.append(NewEvent("breaker.turned", row.instance, {**data, "reason": reason}, ACTOR, reason))
        return None, events

    if found:
        record(work)
    table = Breaker._meta.db_table
    closed = f"state = 'closed' AND {RETIRED.format(table=table)}"
    return len(found) + delete(table, closed, [retired_before], budget=budget)


def _leave_routers(retired_before: float) -> int:
    """A retired instance is taken off the lists of routers, as an operator would do it."""
    members = RouterMember.objects.using(READER).filter(wanted=True)
    living = set(Instance.objects.using(READER).exclude(intent=Instance.Intent.RETIRED).values_list("name", flat=True))
    lately = set(Instance.objects.using(READER).filter(retired_at__gte=retired_before).values_list("name", flat=True))
    gone = 0
    for router in Router.objects.using(READER).order_by("name"):
        names = set(members.filter(router_id=router.pk).values_list("instance", flat=True))
        if not names - living - lately:
            continue
        left = names - living
        reason = f"retired: {', '.join(sorted(left)[:4])}{' and others' if len(left) > 4 else ''}"
        try:
            routers.edit(
                router.name, instances=sorted(names & living), expected=router.version, actor=ACTOR, reason=reason
            )
        except Refused as refused:
            # Somebody changed it just now, or it must be seen to let go first: the next round looks again.
            log.info("router_left_as_it_is", router=router.name, why=refused.sentence)
            continue
        gone += len(left)
    return gone
