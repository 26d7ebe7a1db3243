"""Asks engines' own HTTP servers how they are."""

import structlog
from celery import shared_task

from controlplane.commands.examining import Examined, Examiner

log = structlog.get_logger(__name__)

# What it knows beyond what is stored is worth seconds: a worker that starts anew asks everybody once.
examiner = Examiner()


# A round lasts as long as the slowest engine does; meanwhile the next ones go on with the others.
@shared_task(at_once=3, within_seconds=60.0)
def probe_engines() -> None:
    _tell(examiner.round())


@shared_task
def probe_suspects() -> None:
    """Sent by whoever suspects, not by beat."""
    _tell(examiner.round(suspects_only=True))


def _tell(done: Examined) -> None:
    if done.turned:
        log.info("engines turned", count=done.turned, asked=done.asked)
