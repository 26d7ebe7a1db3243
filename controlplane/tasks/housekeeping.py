"""Keeps small tables small."""

import structlog
from celery import shared_task
from django.utils import timezone

from controlplane.access import links

log = structlog.get_logger(__name__)


@shared_task
def delete_spent_sign_in_links() -> None:
    deleted = links.delete_spent(now=timezone.now())
    if deleted:
        log.info("sign-in links deleted", count=deleted)
