"""Read the ledger: the head, and the events after a cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from controlplane.databases import READER
from controlplane.models import Event, LedgerHead


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a reader stands. A revision means something only within its ledger."""

    ledger_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class EventRow:
    revision: int
    at: float
    kind: str
    instance: str
    actor: str
    reason: str
    data: dict[str, Any]


def head() -> Cursor:
    row = LedgerHead.objects.using(READER).get(id=1)
    return Cursor(row.ledger_id, row.revision)


def first() -> int:
    """The oldest revision that is kept; 1 while all are."""
    oldest = Event.objects.using(READER).order_by("revision").values_list("revision", flat=True).first()
    return 1 if oldest is None else int(oldest)


def after(
    revision: int, *, limit: int = 500, instance: str | None = None, kinds: list[str] | None = None
) -> list[EventRow]:
    """Events with a higher revision, oldest first, at most `limit`."""
    rows = Event.objects.using(READER).filter(revision__gt=revision)
    if instance:
        rows = rows.filter(instance=instance)
    if kinds:
        rows = rows.filter(kind__in=kinds)
    return [_row(event) for event in rows.order_by("revision")[:limit]]


def latest(limit: int, *, instance: str | None = None, kinds: list[str] | None = None) -> list[EventRow]:
    """The newest events, oldest first."""
    rows = Event.objects.using(READER).all()
    if instance:
        rows = rows.filter(instance=instance)
    if kinds:
        rows = rows.filter(kind__in=kinds)
    return [_row(event) for event in reversed(rows.order_by("-revision")[:limit])]


def _row(event: Event) -> EventRow:
    data = msgspec.json.decode(event.data)
    return EventRow(event.revision, event.at, event.kind, event.instance, event.actor, event.reason, data)
