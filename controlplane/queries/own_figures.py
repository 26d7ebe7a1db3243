"""How our own processes do, in figures for `/metrics/fleet`: the clockwork, its queue, alarms and who was told."""

from __future__ import annotations

from collections.abc import Iterator

import redis
from django.conf import settings
from django.db.models import Count, Min

from controlplane.databases import READER
from controlplane.metrics import of_fleet as names
from controlplane.metrics.metric import Sample
from controlplane.models import AlarmNotice, Trimmed

from . import alarms, clockwork
from .clockwork import TaskRow

BROKER_SECONDS = 1.0
QUEUE = "celery"


def tasks(*, now: float) -> Iterator[Sample]:
    """Every task of the schedule, also one that never ran."""
    for row in clockwork.listing():
        yield from _task(row, now)


def _task(row: TaskRow, now: float) -> Iterator[Sample]:
    labels = (row.key,)
    yield Sample(names.TASK_ROUNDS, row.number, labels)
    yield Sample(names.TASK_LATE, row.overdue(now), labels)
    yield Sample(names.TASK_FAILURES, row.failures, labels)
    if row.took is not None:
        yield Sample(names.TASK_TOOK, row.took, labels)
    if row.ok_at is not None:
        yield Sample(names.TASK_OK_AGE, max(0.0, now - row.ok_at), labels)


def broker() -> Iterator[Sample]:
    """Redis is asked itself: a queue that grows means that no worker takes from it."""
    length = queue_length()
    yield Sample(names.BROKER, int(length is not None))
    if length is not None:
        yield Sample(names.QUEUE, length)


def queue_length() -> int | None:
    """How many messages wait for a Celery worker; None when Redis does not say so in time."""
    if not settings.REDIS_URL:
        return None
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=BROKER_SECONDS, socket_connect_timeout=BROKER_SECONDS, retry=None
    )
    try:
        prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS.get("global_keyprefix", "")
        return int(client.llen(f"{prefix}{QUEUE}"))
    except (redis.RedisError, OSError):
        return None
    finally:
        client.close()


def trimmed() -> Iterator[Sample]:
    for subject, total in Trimmed.objects.using(READER).order_by("subject").values_list("subject", "total"):
        yield Sample(names.TRIMMED, total, (subject,))


def told(*, now: float) -> Iterator[Sample]:
    for severity, (count, loud) in alarms.open_counts().items():
        yield Sample(names.ALARMS, loud, (severity, "no"))
        yield Sample(names.ALARMS, count - loud, (severity, "yes"))
    by_state = dict.fromkeys(alarms.NOTICE_STATES, 0)
    notices = AlarmNotice.objects.using(READER)
    by_state.update(notices.values_list("state").annotate(count=Count("id")))
    yield from (Sample(names.NOTICES, count, (state,)) for state, count in by_state.items())
    oldest = notices.filter(state=AlarmNotice.State.WAITING).aggregate(at=Min("made_at"))["at"]
    yield Sample(names.NOTICE_AGE, max(0.0, now - oldest) if oldest is not None else 0.0)
