"""Alarms: one round of looking at what needs a person and keeping what changed; and acknowledging one.

A round decides by one snapshot. What it changes, the events that say so and the messages that tell of it are one
transaction, held against every other round: two at once, or one that is killed anywhere, tell everything once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from controlplane.databases import FACTS, READER
from controlplane.domain.alarm_groups import causes, is_group
from controlplane.domain.alarms import Alarm, Cause, Fate, Past, Step, follow, settled
from controlplane.domain.attention import Concern
from controlplane.domain.errors import Refused
from controlplane.ledger.append import NewEvent
from controlplane.models import Alarm as Row
from controlplane.models import AlarmDesk
from controlplane.queries import attention
from controlplane.queries.fleet import snapshot

from . import alarm_notices, alarm_rows
from .transaction import check_who_and_why, record

FORGET_AFTER_SECONDS = 30 * 86_400.0
MOST_OVER = 20_000
AT_ONCE = 1000
CLOCK_SET_BACK_SECONDS = 60.0
"""No round is under way for so long: who looked so much later had a clock that went ahead, and is not waited for."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did."""

    raised: int = 0
    resolved: int = 0
    told: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    alarm: int
    changed: bool
    sentence: str


def watch(now: float | None = None) -> Round:
    """One round. Nothing is written, and no lock is taken, while nothing changes."""
    at = time.time() if now is None else now
    with snapshot():
        concerns = list(attention.concerns(attention.scene(now=at), now=at))
        known, past = alarm_rows.not_over(READER), alarm_rows.lately(READER, now=at)
    steps, told = _decide(known, past, concerns, at)
    return record(lambda: _keep(concerns, at)) if steps or told else Round()


def _decide(
    known: list[Alarm], past: Mapping[str, Past], concerns: list[Concern], now: float
) -> tuple[list[Step], list[tuple[str, Alarm]]]:
    raised = {alarm.cause.key for alarm in known if alarm.raised_at is not None}
    grouped = {alarm.cause.key for alarm in known if is_group(alarm.cause.key)}
    there = causes(concerns, raised=raised, grouped=grouped)
    return settled(known, follow(known, there, past, now=now), webhook=bool(settings.PDCP_ALARM_WEBHOOK_URL))


def _keep(concerns: list[Concern], now: float) -> tuple[Round, list[NewEvent]]:
    """The same decision on what the tables say now that nobody else changes them."""
    desk = AlarmDesk.objects.using(FACTS).select_for_update().get(pk=1)
    if desk.decided_at - CLOCK_SET_BACK_SECONDS < now <= desk.decided_at:
        # Somebody who looked later was faster: what we saw is over.
        return Round(), []
    known = alarm_rows.not_over(FACTS)
    steps, told = _decide(known, alarm_rows.lately(FACTS, now=now), concerns, now)
    alarm_rows.write(FACTS, steps)
    alarm_notices.write((alarm_notices.told_of(kind, alarm) for kind, alarm in told), now=now)
    AlarmDesk.objects.using(FACTS).filter(pk=1).update(decided_at=now)
    raised = [step.alarm for step in steps if step.fate is Fate.RAISED]
    resolved = [step.alarm for step in steps if step.fate is Fate.RESOLVED]
    events = [_event("alarm.raised", alarm) for alarm in raised]
    events += [_event("alarm.resolved", alarm) for alarm in resolved]
    return Round(len(raised), len(resolved), len(told)), events


def acknowledge(number: int, *, actor: str, reason: str, now: float | None = None) -> Acknowledged:
    """Somebody looks after it: who, and why nobody else must. Again by the same words changes nothing. Raises Refused."""
    at = time.time() if now is None else now
    check_who_and_why(actor, reason)
    if not reason.strip():
        raise Refused("say why: whoever looks at it next reads that", code="malformed")

    def work() -> tuple[Acknowledged, list[NewEvent]]:
        row = Row.objects.using(FACTS).select_for_update(no_key=True).filter(pk=number, raised_at__isnull=False).first()
        if row is None:
            raise Refused(f"there is no alarm {number}", code="not_found")
        if row.resolved_at is not None:
            raise Refused(f"alarm {number} is over: there is nothing to acknowledge", code="conflict")
        if (row.acknowledged_by, row.acknowledged_reason) == (actor, reason):
            return Acknowledged(number, False, f"alarm {number} was acknowledged so before"), []
        said = {"acknowledged_at": at, "acknowledged_by": actor, "acknowledged_reason": reason}
        Row.objects.using(FACTS).filter(pk=number).update(**said)
        alarm = alarm_rows.alarm_of(row)
        if row.told and settings.PDCP_ALARM_WEBHOOK_URL:
            alarm_notices.write([alarm_notices.acknowledged(alarm, actor, reason)], now=at)
        event = NewEvent("alarm.acknowledged", row.instance, _data(alarm.id, alarm.cause), actor, reason)
        return Acknowledged(number, True, f"alarm {number} is acknowledged: {row.name} {row.what}"), [event]

    return record(work)


def forget_old(*, now: float) -> int:
    """Alarms that have been over for a month, or that are more than MOST_OVER; a bounded number at once."""
    over = Row.objects.using(FACTS).filter(resolved_at__isnull=False)
    old = list(over.filter(resolved_at__lt=now - FORGET_AFTER_SECONDS).values_list("pk", flat=True)[:AT_ONCE])
    if not old:
        kept = over.order_by("-pk").values_list("pk", flat=True)[MOST_OVER : MOST_OVER + AT_ONCE]
        old = list(kept)
    if not old:
        return 0
    return Row.objects.using(FACTS).filter(pk__in=old).delete()[0]


def _event(kind: str, alarm: Alarm) -> NewEvent:
    data = _data(alarm.id, alarm.cause)
    if alarm.resolved_at is not None and alarm.raised_at is not None:
        data["open_seconds"] = round(alarm.resolved_at - alarm.raised_at, 1)
    return NewEvent(kind, alarm.cause.instance, data)


def _data(number: int | None, cause: Cause) -> dict[str, object]:
    said = {"alarm": number, "key": cause.key, "severity": str(cause.severity), "state": cause.state}
    return {**said, "name": cause.name, "what": cause.what, "count": cause.count, "since": cause.since}
