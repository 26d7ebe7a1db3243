"""What is kept for how long, from when on the ledger can be told, and how much has gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from controlplane.databases import READER
from controlplane.domain.retention import DAY
from controlplane.ledger.tail import head
from controlplane.models import StoredState, Trimmed

from .fleet import snapshot
from .kept import first_event

KEPT: Mapping[str, tuple[str, str]] = {
    "events": ("PDCP_KEEP_EVENTS_DAYS", "the ledger"),
    "attempts": ("PDCP_KEEP_ATTEMPTS_DAYS", "the audit: who tried what"),
    "requests": ("PDCP_KEEP_OPERATIONS_DAYS", "requests that were answered"),
    "drains": ("PDCP_KEEP_OPERATIONS_DAYS", "drains that ended"),
    "ended launches": ("PDCP_KEEP_ENDED_LAUNCHES_DAYS", "launches that ended, until they go into the archive"),
    "archived launches": ("PDCP_KEEP_ARCHIVE_DAYS", "launches in the archive"),
    "ended sessions": ("PDCP_KEEP_OPERATIONS_DAYS", "engine info that ended"),
    "breakers": ("PDCP_KEEP_LEFTOVERS_DAYS", "breakers about retired instances"),
    "router members": ("PDCP_KEEP_LEFTOVERS_DAYS", "retired instances on the lists of routers"),
    "open rooms": ("PDCP_KEEP_REPORTS_DAYS", "open rooms that were reported"),
    "outcomes": ("PDCP_KEEP_OUTCOMES_DAYS", "how requests ended"),
    "room bindings": ("PDCP_ROOM_TTL_SECONDS", "rooms, and then a while in which they are recognised"),
    "evidence": ("PDCP_KEEP_EVIDENCE_DAYS", "what is known of the way of rooms"),
    "samples": ("PDCP_KEEP_SAMPLES_DAYS", "the series"),
}
"""By the subject under which what went is counted: the setting, and what it is."""


@dataclass(frozen=True, slots=True)
class KeptRow:
    """`kept_seconds` None: for ever. `gone_at`: when some of it went last, `gone` then and `total` ever."""

    subject: str
    what: str
    setting: str
    kept_seconds: float | None
    gone_at: float | None
    gone: int
    total: int


@dataclass(frozen=True, slots=True)
class Retention:
    """The ledger is told from `first` on, written at `first_at`; `states` are stored, the newest at revision `stored`."""

    head: int
    first: int
    first_at: float | None
    states: int
    stored: int | None
    stored_at: float | None
    rows: tuple[KeptRow, ...]


def retention() -> Retention:
    with snapshot():
        now, oldest = head(), first_event()
        states = StoredState.objects.using(READER)
        newest = states.order_by("-revision").values_list("revision", "stored_at").first()
        gone = {row.subject: row for row in Trimmed.objects.using(READER).all()}
        count = states.count()
    rows = tuple(_row(subject, setting, what, gone.get(subject)) for subject, (setting, what) in KEPT.items())
    first, first_at = oldest or (now.revision + 1, None)
    stored, stored_at = newest or (None, None)
    return Retention(now.revision, first, first_at, count, stored, stored_at, rows)


def _row(subject: str, setting: str, what: str, gone: Trimmed | None) -> KeptRow:
    said: float = getattr(settings, setting)
    kept = (said * DAY if setting.endswith("_DAYS") else said) or None
    if gone is None:
        return KeptRow(subject, what, setting, kept, None, 0, 0)
    return KeptRow(subject, what, setting, kept, gone.at, gone.count, gone.total)
