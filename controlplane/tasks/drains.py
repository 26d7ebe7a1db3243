"""Looks at every drain that is under way."""

import structlog
from celery import shared_task

from controlplane.commands import drains

from .rounds import Rounds

log = structlog.get_logger(__name__)

_rounds = Rounds()


@shared_task
def check_drains() -> None:
    with _rounds.place() as place:
        changed = drains.check() if place else 0
    if changed:
        log.info("drains progressed", count=changed)
