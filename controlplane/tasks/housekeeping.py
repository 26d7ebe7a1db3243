"""Keeps small tables small."""

import time

import structlog
from celery import shared_task
from django.core.management import call_command
from django.utils import timezone

from controlplane.access import attempts, links

log = structlog.get_logger(__name__)


@shared_task
def delete_spent_sign_in_links() -> None:
    deleted = links.delete_spent(now=timezone.now())
    if deleted:
        log.info("sign-in links deleted", count=deleted)


@shared_task
def delete_old_attempts_and_sessions() -> None:
    deleted = attempts.delete_old(now=time.time())
    if deleted:
        log.info("old attempts deleted", count=deleted)
    # Django deletes a session when it is used after its end, and never otherwise.
    call_command("clearsessions")
