"""Keeps the journal of room bindings as long as it must be, and no longer."""

import time

import structlog
from celery import shared_task

from controlplane.commands import rooms
from controlplane.commands.trimming import count

log = structlog.get_logger(__name__)

BUDGET_SECONDS = 8.0


@shared_task(within_seconds=20.0)
def trim_expired_rooms() -> None:
    trimmed = rooms.trim_for(BUDGET_SECONDS)
    if trimmed != rooms.Trimmed():
        count("room bindings", trimmed.bindings, now=time.time())
        log.info("rooms trimmed", bindings=trimmed.bindings, collisions=trimmed.collisions, reuses=trimmed.reuses)
