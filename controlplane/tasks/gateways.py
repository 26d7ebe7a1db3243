"""Forgets what gateways and workers reported long ago."""

import time

import structlog
from celery import shared_task

from controlplane.commands import evidence, reports

log = structlog.get_logger(__name__)


@shared_task(deletes=True)
def forget_old_reports() -> None:
    deleted = reports.forget_old(now=time.time()) + evidence.forget_old(now=time.time())
    if deleted:
        log.info("old reports deleted", count=deleted)
