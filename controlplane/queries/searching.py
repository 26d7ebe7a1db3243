"""Events as people look for them: by subject, kind, person and words, a bounded piece of the ledger at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import connections
from django.db.models import Q, QuerySet

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import Cursor, EventRow, head
from controlplane.models import Event

from .fleet import snapshot

WINDOW = 200_000
"""How many revisions one look reads at most, when no index leads to what is sought."""

DENSITY_WINDOW = 20_000
ACTORS_WINDOW = 2_000
MOST_ACTORS = 50

DENSITY = """
SELECT (CAST(at * 1000 AS BIGINT) - %s) / %s AS bar, COUNT(*), MIN(revision) FROM controlplane_event
WHERE revision > %s AND at >= %s AND at < %s GROUP BY 1 ORDER BY 1"""
ACTORS = """
SELECT DISTINCT actor FROM controlplane_event WHERE revision > %s AND actor <> '' ORDER BY actor LIMIT %s"""

SOMEBODY = "*"
"""As an actor: whoever has a name, so no event that workers or our own processes caused."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What to look for; empty fields do not narrow. `low` < revision <= `high`, where they are given."""

    instances: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    actor: str = ""
    words: str = ""
    low: int | None = None
    high: int | None = None

    def rows(self) -> QuerySet[Event]:
        rows = Event.objects.using(READER).all()
        if self.instances:
            rows = rows.filter(instance__in=self.instances)
        if self.kinds:
            rows = rows.filter(kind__in=self.kinds)
        if self.actor:
            rows = rows.exclude(actor="") if self.actor == SOMEBODY else rows.filter(actor=self.actor)
        if self.words:
            rows = rows.filter(Q(reason__icontains=self.words) | Q(data__icontains=self.words))
        return rows

    @property
    def indexed(self) -> bool:
        """Whether reading is about as long as what is found."""
        narrowed = self.kinds or self.actor or self.words or len(self.instances) > 1
        return not narrowed


@dataclass(frozen=True, slots=True)
class Found:
    """The newest first. `older`, `newer`: the revision to go on before or after, None when there is nothing there.

    `looked_from`: nothing below this revision was looked at, though there is something; None when all was.
    """

    head: Cursor
    items: tuple[EventRow, ...]
    older: int | None
    newer: int | None
    looked_from: int | None = None


def look(sought: Sought, *, before: int | None = None, after: int | None = None, limit: int = 100) -> Found:
    """The newest, those before a revision, or those that follow one."""
    with snapshot():
        now = head()
        top = min(edge for edge in (now.revision, sought.high, before - 1 if before else None) if edge is not None)
        bottom = max(sought.low or 0, after or 0)
        if after is not None:
            return _forwards(sought, now, bottom, top, limit)
        floor = bottom if sought.indexed else max(bottom, top - WINDOW)
        rows = sought.rows().filter(revision__gt=floor, revision__lte=top).order_by("-revision")
        found = tuple(map(_row, rows[: limit + 1]))
    items, more = found[:limit], len(found) > limit
    cut = floor + 1 if floor > bottom and not more else None
    newer = top if before is not None and top < min(now.revision, sought.high or now.revision) else None
    return Found(now, items, items[-1].revision if more else cut, newer, cut)


def _forwards(sought: Sought, now: Cursor, bottom: int, top: int, limit: int) -> Found:
    ceiling = top if sought.indexed else min(top, bottom + WINDOW)
    rows = sought.rows().filter(revision__gt=bottom, revision__lte=ceiling).order_by("revision")
    found = tuple(map(_row, rows[: limit + 1]))
    items, more = found[:limit], len(found) > limit
    newer = items[-1].revision if more else (ceiling if ceiling < top else None)
    older = items[0].revision if items else bottom + 1
    return Found(now, items[::-1], older if older > 1 else None, newer)


def event(revision: int) -> EventRow:
    """Raises Refused (not_found)."""
    row = Event.objects.using(READER).filter(revision=revision).first()
    if row is None:
        raise Refused(f"the ledger has no event {revision}: it stands at {head().revision}", code="not_found")
    return _row(row)


def newer_than(revision: int) -> int:
    """How many events came since; negative before it exists."""
    return head().revision - revision


@dataclass(frozen=True, slots=True)
class Density:
    """Events in bars of equal width. `counted_from`: older revisions than this are not counted; None when all are."""

    start: float
    width: float
    bars: tuple[int, ...]
    counted_from: int | None


def density(start: float, width: int, bars: int) -> Density:
    """How many events happened when: in `bars` bars of `width` seconds, from a moment (epoch seconds) on."""
    with snapshot():
        floor = max(0, head().revision - DENSITY_WINDOW)
        with connections[READER].cursor() as cursor:
            values = [round(start * 1000), width * 1000, floor, start, start + width * bars]
            cursor.execute(DENSITY, values)
            found = cursor.fetchall()
    counts = [0] * bars
    for bar, count, _ in found:
        counts[min(max(int(bar), 0), bars - 1)] += count
    first = min((first for _, _, first in found), default=None)
    return Density(start, float(width), tuple(counts), first if floor and first == floor + 1 else None)


def actors() -> Sequence[str]:
    """Who was named lately, by name."""
    with snapshot(), connections[READER].cursor() as cursor:
        cursor.execute(ACTORS, [head().revision - ACTORS_WINDOW, MOST_ACTORS])
        return [name for (name,) in cursor.fetchall()]


def _row(row: Event) -> EventRow:
    data: dict[str, Any] = msgspec.json.decode(row.data)
    return EventRow(row.revision, row.at, row.kind, row.instance, row.actor, row.reason, data)
