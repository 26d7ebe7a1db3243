"""Messages to the webhook: what they say, and that they wait in a table from the transaction on that they tell of."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.conf import settings

from controlplane.databases import FACTS
from controlplane.domain.alarms import Alarm
from controlplane.domain.runbooks import runbook_of
from controlplane.models import AlarmNotice

VERSION = 1
FORGET_AFTER_SECONDS = 7 * 86_400.0
GIVE_UP_SECONDS = 86_400.0
MOST_WAITING = 2000
MOST_KEPT = 10_000
AT_ONCE = 1000
GAVE_UP = "nobody took it for a day"
NO_WEBHOOK = "PDCP_ALARM_WEBHOOK_URL is not set any more"
TOO_MANY = f"more than {MOST_WAITING:,} messages waited, and this was the oldest"

TRIAL = "This is a test: somebody wanted to see whether messages arrive."


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that is not written yet."""

    kind: str
    alarm: Alarm | None
    more: dict[str, Any] = field(default_factory=dict)


def told_of(kind: str, alarm: Alarm) -> Draft:
    return Draft(kind, alarm)


def trial() -> Draft:
    return Draft("test", None)


def acknowledged(alarm: Alarm, actor: str, reason: str) -> Draft:
    return Draft("acknowledged", alarm, {"acknowledged_by": actor, "acknowledged_reason": reason})


def write(drafts: Iterable[Draft], *, now: float) -> list[AlarmNotice]:
    """In the caller's transaction, beside what they tell of."""
    rows = [_row(draft, now) for draft in drafts]
    return AlarmNotice.objects.using(FACTS).bulk_create(rows, batch_size=200) if rows else []


def forget_old(*, now: float) -> int:
    """Ends what nobody took for a day or is to take any more, or what is too much; deletes what ended a week ago. Bounded."""
    table = AlarmNotice.objects.using(FACTS)
    waiting = table.filter(state=AlarmNotice.State.WAITING)
    end = {"state": AlarmNotice.State.GIVEN_UP, "ended_at": now}
    if not settings.PDCP_ALARM_WEBHOOK_URL:
        waiting.update(problem=NO_WEBHOOK, **end)
    waiting.filter(made_at__lt=now - GIVE_UP_SECONDS).update(problem=GAVE_UP, **end)
    newest = waiting.order_by("-pk").values_list("pk", flat=True)[MOST_WAITING:][:1]
    for last in list(newest):
        waiting.filter(pk__lte=last).update(problem=TOO_MANY, **end)
    over = table.exclude(state=AlarmNotice.State.WAITING)
    old = list(over.filter(ended_at__lt=now - FORGET_AFTER_SECONDS).values_list("pk", flat=True)[:AT_ONCE])
    old = old or list(over.order_by("-pk").values_list("pk", flat=True)[MOST_KEPT : MOST_KEPT + AT_ONCE])
    return table.filter(pk__in=old).delete()[0] if old else 0


def site_url() -> str:
    """Where the pages are for whoever reads a message: the first origin that settings name, else where they are served."""
    for origin in settings.CSRF_TRUSTED_ORIGINS:
        if "*" not in origin:
            return str(origin).rstrip("/")
    host = settings.PDCP_WEB_HOST
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PDCP_WEB_PORT}"


def _row(draft: Draft, now: float) -> AlarmNotice:
    notice = str(uuid.uuid4())
    number = draft.alarm.id if draft.alarm is not None and draft.alarm.id is not None else 0
    said = _body(draft, notice, number, now)
    body = msgspec.json.encode(said).decode()
    return AlarmNotice(notice=notice, alarm_id=number, kind=draft.kind, body=body, made_at=now, due_at=now)


def _body(draft: Draft, notice: str, number: int, now: float) -> dict[str, Any]:
    site = {"name": settings.PDCP_SITE_NAME, "kind": settings.PDCP_SITE_KIND}
    said = {"version": VERSION, "id": notice, "kind": draft.kind, "at": _moment(now), "site": site}
    base, alarm = site_url(), draft.alarm
    if alarm is None:
        return {**said, "sentence": TRIAL, "link": f"{base}/alarms/"}
    cause = alarm.cause
    return {
        **said,
        "status": "open" if alarm.resolved_at is None else "resolved",
        "alarm": number,
        "key": cause.key,
        "severity": str(cause.severity),
        "state": cause.state,
        "instance": cause.instance,
        "name": cause.name,
        "sentence": f"{cause.name} {cause.what}",
        "why": cause.why,
        "next": cause.next,
        "count": cause.count,
        "flapping": alarm.flapping,
        "since": _moment(cause.since if cause.since is not None else alarm.began_at),
        "raised_at": _moment(alarm.raised_at),
        "resolved_at": _moment(alarm.resolved_at),
        "link": f"{base}/alarms/{number}/",
        "runbook": f"{base}/alarms/runbooks/#{runbook_of(cause.key)}",
        **draft.more,
    }


def _moment(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
