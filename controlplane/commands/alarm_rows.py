"""Alarms as rows: read as `domain.alarms` knows them, and written as it decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Max

from controlplane.domain.alarms import CALM_SECONDS, Alarm, Cause, Fate, Past, Severity, Step
from controlplane.domain.attention import Place
from controlplane.models import Alarm as Row

WRITTEN = (
    *("severity", "state", "kind", "place", "instance", "name", "what", "why", "next", "step", "to_kind", "to_place"),
    *("count", "since", "began_at", "raised_at", "clear_since", "resolved_at", "returns", "told", "told_count"),
)
"""All that a round may change of a row."""

AT_ONCE = 200


def not_over(alias: str) -> list[Alarm]:
    return [alarm_of(row) for row in Row.objects.using(alias).filter(resolved_at=None).order_by("pk")]


def lately(alias: str, *, now: float) -> dict[str, Past]:
    """By key, the last alarm that has been over for less than CALM_SECONDS."""
    over = Row.objects.using(alias).filter(resolved_at__gt=now - CALM_SECONDS)
    newest = over.values("key").annotate(newest=Max("pk")).values_list("newest", flat=True)
    rows = Row.objects.using(alias).filter(pk__in=list(newest)).values_list("key", "resolved_at", "returns")
    return {key: Past(resolved_at or 0.0, returns) for key, resolved_at, returns in rows}


def alarm_of(row: Row) -> Alarm:
    return Alarm(
        cause=Cause(
            key=row.key,
            severity=Severity(row.severity),
            state=row.state,
            name=row.name,
            at=Place(row.kind, row.place),
            what=row.what,
            why=row.why,
            next=row.next,
            step=row.step,
            to=Place(row.to_kind, row.to_place),
            since=row.since,
            count=row.count,
        ),
        began_at=row.began_at,
        id=row.pk,
        raised_at=row.raised_at,
        clear_since=row.clear_since,
        resolved_at=row.resolved_at,
        returns=row.returns,
        told=row.told,
        told_count=row.told_count,
    )


def write(alias: str, steps: Sequence[Step]) -> None:
    """In the caller's transaction. The oldest first, so that two who write never wait for each other crosswise."""
    dropped = [step.alarm.id for step in steps if step.fate is Fate.DROPPED and step.alarm.id is not None]
    if dropped:
        Row.objects.using(alias).filter(pk__in=dropped).delete()
    begun = [step.alarm for step in steps if step.fate is Fate.BEGUN]
    Row.objects.using(alias).bulk_create((_row(alarm) for alarm in begun), batch_size=AT_ONCE)
    kept = sorted((_row(step.alarm) for step in steps if step.fate not in (Fate.BEGUN, Fate.DROPPED)), key=_key)
    Row.objects.using(alias).bulk_update(kept, WRITTEN, batch_size=AT_ONCE)


def _key(row: Row) -> Any:
    return row.pk


def _row(alarm: Alarm) -> Row:
    cause = alarm.cause
    return Row(
        id=alarm.id,
        key=cause.key,
        severity=cause.severity,
        state=cause.state,
        kind=cause.at.kind,
        place=cause.at.key,
        instance=cause.instance,
        name=cause.name,
        what=cause.what,
        why=cause.why,
        next=cause.next,
        step=cause.step,
        to_kind=cause.to.kind,
        to_place=cause.to.key,
        count=cause.count,
        since=cause.since,
        began_at=alarm.began_at,
        raised_at=alarm.raised_at,
        clear_since=alarm.clear_since,
        resolved_at=alarm.resolved_at,
        returns=alarm.returns,
        told=alarm.told,
        told_count=alarm.told_count,
    )
