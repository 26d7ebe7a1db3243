"""How long what is kept, as settings say; seconds, 0 for ever."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from controlplane.domain.retention import DAY


@dataclass(frozen=True, slots=True)
class Keeping:
    events: float = 90 * DAY
    attempts: float = 90 * DAY
    operations: float = 30 * DAY
    ended_launches: float = DAY
    archive: float = 90 * DAY
    leftovers: float = DAY
    reports: float = DAY
    outcomes: float = 7 * DAY
    samples: float = DAY
    evidence: float = DAY


def keeping() -> Keeping:
    return Keeping(
        events=settings.PDCP_KEEP_EVENTS_DAYS * DAY,
        attempts=settings.PDCP_KEEP_ATTEMPTS_DAYS * DAY,
        operations=settings.PDCP_KEEP_OPERATIONS_DAYS * DAY,
        ended_launches=settings.PDCP_KEEP_ENDED_LAUNCHES_DAYS * DAY,
        archive=settings.PDCP_KEEP_ARCHIVE_DAYS * DAY,
        leftovers=settings.PDCP_KEEP_LEFTOVERS_DAYS * DAY,
        reports=settings.PDCP_KEEP_REPORTS_DAYS * DAY,
        outcomes=settings.PDCP_KEEP_OUTCOMES_DAYS * DAY,
        samples=settings.PDCP_KEEP_SAMPLES_DAYS * DAY,
        evidence=settings.PDCP_KEEP_EVIDENCE_DAYS * DAY,
    )


def before(now: float, kept: float) -> float | None:
    """What is older than this moment may go; None: nothing may."""
    return now - kept if kept else None
