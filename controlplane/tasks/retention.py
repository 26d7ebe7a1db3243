"""Keeps the past as long as it must be kept, and no longer: the ledger, ended launches, leftovers."""

import time

import structlog
from celery import shared_task

from controlplane.commands import archiving, compaction, leftovers

log = structlog.get_logger(__name__)


@shared_task(within_seconds=60.0, deletes=True)
def compact_ledger() -> None:
    done = compaction.compact(now=time.time())
    if done.stored is not None or done.events:
        log.info("ledger compacted", stored=done.stored, events=done.events, states=done.states)


@shared_task(within_seconds=60.0, deletes=True)
def archive_ended_launches() -> None:
    now = time.time()
    archived, forgotten = archiving.archive_ended(now=now), archiving.forget_archived(now=now)
    if archived or forgotten:
        log.info("launches archived", archived=archived, forgotten=forgotten)


@shared_task(within_seconds=60.0, deletes=True)
def sweep_leftovers() -> None:
    gone = leftovers.sweep(now=time.time())
    if gone:
        log.info("leftovers swept", **{subject.replace(" ", "_"): count for subject, count in gone.items()})
