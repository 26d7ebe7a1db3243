"""Looks at every drain that is under way."""

import structlog
from celery import shared_task

from controlplane.commands import drains

log = structlog.get_logger(__name__)


# A look takes two seconds when somebody does not answer: meanwhile the next ones go on with the others.
@shared_task(at_once=3, within_seconds=10.0)
def check_drains() -> None:
    changed = drains.check()
    if changed:
        log.info("drains progressed", count=changed)
