"""Looks at every drain that is under way."""

import structlog
from celery import shared_task

from controlplane.commands import drains

log = structlog.get_logger(__name__)


@shared_task
def check_drains() -> None:
    changed = drains.check()
    if changed:
        log.info("drains progressed", count=changed)
