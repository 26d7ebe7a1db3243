"""Alarms as rows: those that are open, those that are over, what the webhook was told, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections
from django.db.models import Q

from controlplane.databases import READER
from controlplane.domain.alarm_groups import is_group
from controlplane.domain.alarms import FLAPPING, Severity
from controlplane.domain.attention import Place
from controlplane.domain.errors import Refused
from controlplane.domain.runbooks import runbook_of
from controlplane.models import Alarm, AlarmNotice

from .wording import ago, counted

__all__ = [
    "NOTICE_STATES",
    "SEVERITIES",
    "STATUSES",
    "AlarmRow",
    "AlarmSeen",
    "NoticeRow",
    "Post",
    "alarm",
    "listing",
    "notices",
    "post",
]

SEVERITIES = tuple(map(str, Severity))
STATUSES = ("open", "resolved")
NOTICE_STATES = tuple(map(str, AlarmNotice.State.values))

OPEN = """
SELECT severity, COUNT(*), SUM(CASE WHEN acknowledged_at IS NULL THEN 1 ELSE 0 END) FROM controlplane_alarm
WHERE resolved_at IS NULL AND raised_at IS NOT NULL GROUP BY severity"""


@dataclass(frozen=True, slots=True)
class AlarmRow:
    """One alarm that was raised. `since`: since when it is so, as far as anybody knows, else since when we see it.
    `clear_since`: it is not so any more, and open until that lasts."""

    id: int
    key: str
    severity: str
    state: str
    instance: str
    name: str
    at: Place
    what: str
    why: str
    next: str
    step: str
    to: Place
    count: int
    since: float
    raised_at: float
    clear_since: float | None
    resolved_at: float | None
    returns: int
    acknowledged_at: float | None
    acknowledged_by: str
    acknowledged_reason: str
    told: bool

    @property
    def status(self) -> str:
        return "open" if self.resolved_at is None else "resolved"

    @property
    def acknowledged(self) -> bool:
        return self.acknowledged_at is not None

    @property
    def flapping(self) -> bool:
        return self.returns >= FLAPPING

    @property
    def runbook(self) -> str:
        return runbook_of(self.key)

    @property
    def grouped(self) -> bool:
        return is_group(self.key)

    @property
    def sentence(self) -> str:
        return f"{self.name} {self.what}"


@dataclass(frozen=True, slots=True)
class AlarmSeen:
    """An alarm that is not over. `id` None: it is not raised yet."""

    id: int | None
    began_at: float
    acknowledged_by: str


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """One message to the webhook. `alarm` 0: a test. `due_at`: when it is tried next, while it waits."""

    id: int
    notice: str
    alarm: int
    kind: str
    state: str
    made_at: float
    due_at: float
    attempts: int
    status: int | None
    problem: str
    took_seconds: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class Post:
    """How the webhook does. `where`: its host alone, for its path may be a secret; blank: there is none."""

    where: str
    waiting: int
    waiting_since: float | None
    problem: str
    delivered_at: float | None

    def sentence(self, now: float) -> str:
        if not self.where:
            return "Nobody is told: PDCP_ALARM_WEBHOOK_URL is not set"
        wait = f"{counted(self.waiting, 'message')} waiting"
        if self.waiting and self.problem:
            oldest = ago(self.waiting_since or now, now)
            return f"{self.where} does not take messages: {self.problem}; {wait}, the oldest made {oldest}"
        if self.waiting:
            return f"{self.where}: {wait}"
        if self.delivered_at is None:
            return f"{self.where} was told nothing yet"
        return f"{self.where} took the last message {ago(self.delivered_at, now)}"


def seen() -> Mapping[str, AlarmSeen]:
    """All that are not over, by the key of their cause."""
    found = Alarm.objects.using(READER).filter(resolved_at=None)
    rows = found.values_list("key", "pk", "began_at", "raised_at", "acknowledged_by")
    return {
        key: AlarmSeen(number if raised_at is not None else None, began_at, by)
        for key, number, began_at, raised_at, by in rows
    }


def listing(
    *,
    status: str | None = None,
    severity: str | None = None,
    instance: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> tuple[AlarmRow, ...]:
    """The newest first. `before`: only those with a lower id."""
    found = Alarm.objects.using(READER).filter(raised_at__isnull=False).order_by("-pk")
    wanted = Q()
    if status is not None:
        wanted &= Q(resolved_at__isnull=status == "open")
    if severity is not None:
        wanted &= Q(severity=severity)
    if instance is not None:
        wanted &= Q(instance=instance)
    if before is not None:
        wanted &= Q(pk__lt=before)
    return tuple(map(_row, found.filter(wanted)[:limit]))


def worst_first(rows: tuple[AlarmRow, ...]) -> list[AlarmRow]:
    """Those that nobody looks after yet, the worst, the oldest."""
    return sorted(rows, key=lambda row: (row.acknowledged, SEVERITIES.index(row.severity), row.raised_at, row.id))


def alarm(number: int) -> AlarmRow:
    """Raises Refused (not_found)."""
    found = Alarm.objects.using(READER).filter(pk=number, raised_at__isnull=False).first()
    if found is None:
        raise Refused(f"there is no alarm {number}", code="not_found")
    return _row(found)


def notices(
    *, alarm: int | None = None, state: str | None = None, before: int | None = None, limit: int = 100
) -> tuple[NoticeRow, ...]:
    """Messages to the webhook, the newest first."""
    found = AlarmNotice.objects.using(READER).order_by("-pk")
    if alarm is not None:
        found = found.filter(alarm_id=alarm)
    if state is not None:
        found = found.filter(state=state)
    if before is not None:
        found = found.filter(pk__lt=before)
    return tuple(_notice(row) for row in found[:limit])


def post() -> Post:
    waiting = AlarmNotice.objects.using(READER).filter(state=AlarmNotice.State.WAITING).order_by("pk")
    first = waiting.first()
    last = AlarmNotice.objects.using(READER).filter(state=AlarmNotice.State.DELIVERED).order_by("-pk").first()
    return Post(
        where(),
        waiting.count() if first is not None else 0,
        first.made_at if first is not None else None,
        first.problem if first is not None else "",
        last.ended_at if last is not None else None,
    )


def where() -> str:
    """The host of the webhook; blank when there is none."""
    return urlsplit(settings.PDCP_ALARM_WEBHOOK_URL).netloc


def open_counts() -> Mapping[str, tuple[int, int]]:
    """Of each severity how many are open, and how many of them nobody has acknowledged."""
    found = dict.fromkeys(SEVERITIES, (0, 0))
    with connections[READER].cursor() as cursor:
        cursor.execute(OPEN)
        found |= {severity: (int(count), int(new)) for severity, count, new in cursor.fetchall()}
    return found


def _row(row: Alarm) -> AlarmRow:
    assert row.raised_at is not None
    return AlarmRow(
        id=row.pk,
        key=row.key,
        severity=row.severity,
        state=row.state,
        instance=row.instance,
        name=row.name,
        at=Place(row.kind, row.place),
        what=row.what,
        why=row.why,
        next=row.next,
        step=row.step,
        to=Place(row.to_kind, row.to_place),
        count=row.count,
        since=row.since if row.since is not None else row.began_at,
        raised_at=row.raised_at,
        clear_since=row.clear_since if row.resolved_at is None else None,
        resolved_at=row.resolved_at,
        returns=row.returns,
        acknowledged_at=row.acknowledged_at,
        acknowledged_by=row.acknowledged_by,
        acknowledged_reason=row.acknowledged_reason,
        told=bool(row.told),
    )


def _notice(row: AlarmNotice) -> NoticeRow:
    return NoticeRow(
        row.pk,
        row.notice,
        row.alarm_id,
        row.kind,
        row.state,
        row.made_at,
        row.due_at,
        row.attempts,
        row.status,
        row.problem,
        row.took_seconds,
        row.ended_at,
    )
