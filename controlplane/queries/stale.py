"""What is stale: instances that are retired, silent or empty, and launches that ended; since when, why, and who still answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import Count, Max, Min

from controlplane.databases import READER
from controlplane.domain.engine_health import State
from controlplane.domain.errors import Refused
from controlplane.domain.stale import why_alive
from controlplane.models import ArchivedLaunch, Instance, Launch

from .fleet import snapshot
from .kept import opened

MOST = 1000

# Per instance: who counts in its open launches, who of them answered last, who refused or said nothing.
INSTANCES = """
SELECT i.id, i.name, i.role, i.intent, i.created_at, i.retired_at, i.intent_actor, i.intent_reason, COUNT(r.tp),
 SUM(CASE WHEN r.contact = 'up' THEN 1 ELSE 0 END), SUM(CASE WHEN r.contact IN ('refused', 'silent') THEN 1 ELSE 0 END),
 MAX(r.seen_at), (SELECT MAX(e.ended_at) FROM controlplane_launch e WHERE e.instance_id = i.id), h.state, h.since
FROM controlplane_instance i LEFT JOIN controlplane_enginehealth h ON h.instance_id = i.id
LEFT JOIN controlplane_launch l ON l.instance_id = i.id AND l.ended_at IS NULL
LEFT JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number AND r.left_at IS NULL{where}
GROUP BY i.id, i.name, i.role, i.intent, i.created_at, i.retired_at, i.intent_actor, i.intent_reason, h.state, h.since
ORDER BY i.name"""

ANSWERS = frozenset({State.UP, State.LATE, State.STARTING})
AWAY = frozenset({State.DOWN, State.SILENT, State.STRANGER})
"""What the verdict on its engine says of an instance of which no rank is registered."""


@dataclass(frozen=True, slots=True)
class StaleRow:
    """An instance that looks dead. `what`: retired, silent (ranks are registered, and none answers; of a decode its engine is
    away), empty (no rank is, and no engine answers).

    `since`: of a silent one its last registration, of a decode the verdict. `answering`: of a retired one, when it was
    retired: nobody asks since.
    `alive`: why a purge needs an override; blank when it needs none, unless ranks answer when they are asked for it.
    """

    instance: str
    role: str
    what: str
    since: float
    reason: str
    registered: int
    answering: int
    alive: str


@dataclass(frozen=True, slots=True)
class EndedRow:
    """How many launches ended: in the directory's tables still, in the archive, and between when and when."""

    waiting: int
    archived: int
    oldest: float | None
    newest: float | None


@dataclass(frozen=True, slots=True)
class ArchivedRow:
    """A launch in the archive. `ranks`: {slot, ip, port, first_at, seen_at, left_at, left_reason} each."""

    id: int
    instance: str
    number: int
    state: str
    replaced_by: int | None
    token: str | None
    topology: tuple[int, int, int, int]
    opened_at: float
    completed_at: float | None
    ended_at: float
    ended_reason: str
    first_seen_at: float | None
    last_seen_at: float | None
    rank_count: int
    archived_at: float
    ranks: tuple[dict[str, Any], ...]


def stale(*, now: float, older_than: float = 0.0, instance: str | None = None) -> tuple[StaleRow, ...]:
    """By name; only what has been so for `older_than` seconds."""
    where, values = (" WHERE i.name = %s", [instance]) if instance is not None else ("", [])
    with snapshot(), connections[READER].cursor() as cursor:
        cursor.execute(INSTANCES.format(where=where), values)
        rows = cursor.fetchall()
    return tuple(row for row in _told(rows) if row.since <= now - older_than)


def ended() -> EndedRow:
    with snapshot():
        waiting = (
            Launch.objects.using(READER)
            .filter(ended_at__isnull=False)
            .aggregate(n=Count("id"), oldest=Min("ended_at"), newest=Max("ended_at"))
        )
        archived = ArchivedLaunch.objects.using(READER).aggregate(
            n=Count("id"), oldest=Min("ended_at"), newest=Max("ended_at")
        )
    known = [found[edge] for found in (waiting, archived) for edge in ("oldest", "newest") if found[edge] is not None]
    return EndedRow(waiting["n"], archived["n"], min(known, default=None), max(known, default=None))


def archive(
    *, instance: str | None = None, before: int | None = None, limit: int = 100, older_than: float | None = None
) -> tuple[ArchivedRow, ...]:
    """Launches in the archive, those that came last first; with ids below `before`, and that ended before `older_than`."""
    if not 1 <= limit <= MOST + 1:
        raise Refused(f"limit must be between 1 and {MOST}, not {limit}", code="malformed")
    given = {"instance": instance, "id__lt": before, "ended_at__lt": older_than}
    rows = ArchivedLaunch.objects.using(READER).filter(
        **{key: value for key, value in given.items() if value is not None}
    )
    return tuple(_archived(row) for row in rows.order_by("-id")[:limit])


def _told(rows: list[tuple[Any, ...]]) -> Iterator[StaleRow]:
    for _, name, role, intent, created, retired_at, actor, reason, registered, up, dead, seen, *more in rows:
        last_ended, state, turned_at = more
        retired = intent == Instance.Intent.RETIRED
        alive = why_alive(name, retired=retired, answering=0)
        if retired:
            why = f"retired by {actor or 'somebody'}{f': {reason}' if reason else ''}"
            yield StaleRow(name, role, "retired", retired_at or created, why, int(registered), int(up), alive)
        elif registered and dead == registered:
            why = "none of its ranks answers"
            yield StaleRow(name, role, "silent", seen, why, int(registered), 0, alive)
        elif not registered and role == Instance.Role.DECODE:
            # It registers nobody: its engine alone says whether it is there.
            if state in AWAY:
                yield StaleRow(name, role, "silent", turned_at, f"its engine is {state}", 0, 0, alive)
        elif not registered and state not in ANSWERS:
            why = "nobody is registered any more" if last_ended is not None else "nobody has ever registered"
            yield StaleRow(name, role, "empty", last_ended or created, why, 0, 0, alive)


def _archived(row: ArchivedLaunch) -> ArchivedRow:
    return ArchivedRow(
        row.pk,
        row.instance,
        row.number,
        row.state,
        row.replaced_by,
        row.token,
        (row.dp, row.cp, row.tp, row.pp),
        row.opened_at,
        row.completed_at,
        row.ended_at,
        row.ended_reason,
        row.first_seen_at,
        row.last_seen_at,
        row.rank_count,
        row.archived_at,
        tuple(opened(row.ranks)),
    )
