"""Keeps the journal of room bindings as long as it must be, and no longer."""

import structlog
from celery import shared_task

from controlplane.commands import rooms

log = structlog.get_logger(__name__)

BUDGET_SECONDS = 8.0


@shared_task
def trim_expired_rooms() -> None:
    trimmed = rooms.trim_for(BUDGET_SECONDS)
    if trimmed.bindings or trimmed.collisions:
        log.info("rooms trimmed", bindings=trimmed.bindings, collisions=trimmed.collisions)
