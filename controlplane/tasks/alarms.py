"""Raises and resolves alarms, sends what the webhook shall hear, and forgets what is long over."""

import time

import structlog
from celery import shared_task

from controlplane.commands import alarm_notices, alarm_posting, alarms

log = structlog.get_logger(__name__)


RESTS = 3.0
"""So many times as long as a round took, the next one waits: of a very large fleet we look less often, and others get on."""

_rests_until = [0.0]

MOST_PIECES = 30
"""So many bounded pieces are forgotten in one round: more than the wildest fleet makes in an hour."""


@shared_task
def watch_alarms() -> None:
    began = time.monotonic()
    if began < _rests_until[0]:
        return
    done = alarms.watch()
    ended = time.monotonic()
    _rests_until[0] = ended + RESTS * (ended - began)
    if done.raised or done.resolved:
        log.info("alarms changed", raised=done.raised, resolved=done.resolved)


# Its own budget, and one answer that does not come.
@shared_task(within_seconds=20.0)
def send_alarm_notices() -> None:
    taken = alarm_posting.deliver()
    if taken:
        log.info("alarm webhook took messages", count=taken)


@shared_task(deletes=True)
def forget_old_alarms() -> None:
    now, deleted = time.time(), 0
    for _ in range(MOST_PIECES):
        piece = alarms.forget_old(now=now) + alarm_notices.forget_old(now=now)
        deleted += piece
        if not piece:
            break
    if deleted:
        log.info("old alarms deleted", count=deleted)
