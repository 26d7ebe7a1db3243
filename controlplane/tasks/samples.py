"""Keeps a day of samples of the series."""

import time

import structlog
from celery import shared_task

from controlplane.commands import samples

log = structlog.get_logger(__name__)


@shared_task(deletes=True)
def forget_old_samples() -> None:
    deleted = samples.forget_old(now=time.time())
    if deleted:
        log.info("old samples deleted", count=deleted)
