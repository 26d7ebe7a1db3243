"""Begin, cancel and force drains. What becomes of one that is under way is seen by `watching`, one look at a time."""

from __future__ import annotations

import time

from django.db import connections
from django.db.models import Max

from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.drain import Progress
from controlplane.domain.errors import Refused
from controlplane.domain.intent import Intent, Order
from controlplane.ledger.append import NewEvent
from controlplane.models import ALL_GROUPS, Drain, Instance, LedgerHead, RoomBinding
from controlplane.queries import routable
from controlplane.queries.drains import Plan
from controlplane.queries.drains import plan as read_plan

from .closing import current_launch, end_drain
from .intent import Changed, Subject, take
from .noting import record_and_note
from .stale import Stale
from .transaction import check_who_and_why, record
from .watching import check

__all__ = ["Changed", "Plan", "Stale", "cancel", "check", "drain", "force", "plan"]

LONGEST_SECONDS = 30 * 86_400.0
BUDGET_LOCK = 0x70_64_63_70
"""Any number, the same for all who count what remains."""


def plan(name: str, *, group: int = ALL_GROUPS, min_ready: int = 0, now: float | None = None) -> Plan:
    """What a drain would mean, without beginning it. Raises Refused (not_found)."""
    return read_plan(name, group=group, min_ready=min_ready, now=time.time() if now is None else now)


def drain(
    name: str,
    *,
    group: int = ALL_GROUPS,
    actor: str,
    reason: str = "",
    deadline_at: float | None = None,
    min_ready: int = 0,
    expected: int | None = None,
) -> Changed:
    """Stop admission, then wait until nothing is left. `min_ready`: refused when fewer routable instances of its role
    would remain. Raises Refused, Stale."""
    check_who_and_why(actor, reason)
    _check_limits(deadline_at, min_ready)
    # Read before the transaction: counting a large fleet takes longer than writers may be held up.
    remaining = _remaining(name, group) if min_ready else {}

    def work() -> tuple[Changed, list[NewEvent]]:
        if min_ready:
            _one_at_a_time()
        subject = take(name, group, expected)
        going_on = subject.open_drain()
        changes = subject.give(Order.DRAIN)
        if going_on is not None:
            since = f"by {going_on.actor}, {going_on.progress}"
            return subject.unchanged(f"{subject.what} is draining already ({since}); nothing was changed", going_on), []
        _check_budget(subject, min_ready, remaining)
        begun = _begin(subject, actor, reason, deadline_at, min_ready)
        # After a forced end it is draining still, and is watched again.
        event = subject.keep(Intent.DRAINING, actor, reason, drain=begun)
        again = "" if changes else " again"
        return subject.changed(f"{subject.what} is draining{again}", begun), [event, _started(begun, actor, reason)]

    return record_and_note(work, _ask_for)


def cancel(
    name: str,
    *,
    group: int = ALL_GROUPS,
    to: str = "enabled",
    actor: str,
    reason: str = "",
    expected: int | None = None,
) -> Changed:
    """End the drain and go back to enabled, or stay cordoned. Raises Refused, Stale."""
    check_who_and_why(actor, reason)
    orders = {"enabled": Order.RESUME, "cordoned": Order.HOLD}
    if to not in orders:
        raise Refused(f"a drain is cancelled to enabled or to cordoned, not to {to!r}", code="malformed")

    def work() -> tuple[Changed, list[NewEvent]]:
        subject = take(name, group, expected)
        open_drain = subject.open_drain()
        if subject.intent != Intent.DRAINING:
            return subject.unchanged(f"{subject.what} is not draining, it is {subject.intent}; nothing was changed"), []
        subject.give(orders[to])
        event = subject.keep(Intent(to), actor, reason, drain=open_drain)
        ended = [end_drain(open_drain, "cancelled", f"it is {to} again", actor, reason)] if open_drain else []
        sentence = f"the drain of {subject.what} was cancelled: it is {to}{subject.beside()}"
        return subject.changed(sentence, open_drain), [event, *ended]

    return record(work)


def force(name: str, *, group: int = ALL_GROUPS, actor: str, reason: str = "", expected: int | None = None) -> Changed:
    """Wait no longer. It stays out of use, and is not called drained. Raises Refused, Stale."""
    check_who_and_why(actor, reason)

    def work() -> tuple[Changed, list[NewEvent]]:
        subject = take(name, group, expected)
        open_drain = subject.open_drain()
        if open_drain is None:
            raise Refused(f"{subject.what} has no drain under way that could be forced", code="conflict")
        if open_drain.progress == Progress.DRAINED:
            return subject.unchanged(f"{subject.what} is drained: there is nothing to be forced", open_drain), []
        event = subject.keep(Intent.DRAINING, actor, reason, drain=open_drain)
        ended = end_drain(open_drain, "forced", "forced", actor, reason)
        sentence = f"the drain of {subject.what} was ended by force: what was in flight may be lost"
        return subject.changed(sentence, open_drain), [event, ended]

    return record(work)


def _begin(subject: Subject, actor: str, reason: str, deadline_at: float | None, min_ready: int) -> Drain:
    newest = RoomBinding.objects.using(TRAFFIC).aggregate(newest=Max("id"))["newest"]
    return Drain.objects.using(FACTS).create(
        instance_id=subject.instance.pk,
        instance=subject.instance.name,
        group=subject.group,
        launch=current_launch(subject.instance.pk),
        actor=actor,
        reason=reason,
        started_at=time.time(),
        deadline_at=deadline_at,
        min_ready=min_ready,
        # The revision of the event that asks to stop is known when that is appended, last in this transaction.
        cordon_revision=0,
        cordon_ledger=LedgerHead.objects.using(FACTS).get(id=1).ledger_id,
        rooms_mark=newest or 0,
    )


def _started(begun: Drain, actor: str, reason: str) -> NewEvent:
    data = {
        "drain": begun.pk,
        "dp": None if begun.group == ALL_GROUPS else begun.group,
        "launch": begun.launch,
        "deadline_at": begun.deadline_at,
        "min_ready": begun.min_ready,
    }
    return NewEvent("drain.started", begun.instance, data, actor, reason)


def _ask_for(changed: Changed, revision: int) -> None:
    """`revision`: of the last event of the command. Whoever has acknowledged it has read the intent as well."""
    Drain.objects.using(FACTS).filter(pk=changed.drain or 0).update(cordon_revision=revision)


def _check_limits(deadline_at: float | None, min_ready: int) -> None:
    if deadline_at is not None and not 0 < deadline_at - time.time() <= LONGEST_SECONDS:
        days = int(LONGEST_SECONDS // 86_400)
        raise Refused(f"the deadline must lie ahead, by {days} days at most", code="malformed")
    if not 0 <= min_ready <= 1_000_000:
        raise Refused(f"min_ready is a number of instances, 0 or more, not {min_ready}", code="malformed")


def _remaining(name: str, group: int) -> dict[str, list[str]]:
    """Routable instances by role, as if this were drained."""
    found: dict[str, list[str]] = {}
    for row in routable.instances(now=time.time(), without=(name, group)):
        if row.routable:
            found.setdefault(row.role, []).append(row.name)
    return found


def _check_budget(subject: Subject, min_ready: int, remaining: dict[str, list[str]]) -> None:
    """Of those that were routable a moment ago, count those that nobody has taken out of use meanwhile."""
    if not min_ready:
        return
    names = remaining.get(subject.instance.role, [])
    still = Instance.objects.using(FACTS).filter(name__in=names, intent=Instance.Intent.ENABLED).count()
    if still < min_ready:
        raise Refused(
            f"{subject.what} is not drained: {still} routable {subject.instance.role} instances would remain, and"
            f" {min_ready} are wanted",
            code="budget",
        )


def _one_at_a_time() -> None:
    """Two who take the last two instances out of use at the same moment must see each other. SQLite has one writer."""
    connection = connections[FACTS]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [BUDGET_LOCK])
