"""Keeps small tables small."""

import time

import structlog
from celery import shared_task
from django.core.management import call_command
from django.utils import timezone

from controlplane.access import attempts, links
from controlplane.commands.keeping import keeping
from controlplane.commands.trimming import count

log = structlog.get_logger(__name__)


@shared_task
def delete_spent_sign_in_links() -> None:
    deleted = links.delete_spent(now=timezone.now())
    if deleted:
        log.info("sign-in links deleted", count=deleted)


@shared_task(deletes=True)
def delete_old_attempts_and_sessions() -> None:
    now, kept = time.time(), keeping().attempts
    deleted = count("attempts", attempts.delete_old(now=now, kept_seconds=kept), now=now) if kept else 0
    if deleted:
        log.info("old attempts deleted", count=deleted)
    # Django deletes a session when it is used after its end, and never otherwise.
    call_command("clearsessions")
