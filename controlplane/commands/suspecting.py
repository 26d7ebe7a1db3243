"""Somebody doubts that an instance is well: its ranks and its engine are asked at once, whatever their turn is.

Gateways may say so many times a second: one row an instance, no event, and a doubt that was said a moment ago is not said
again. The prober and the bootstrap process read what is new.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction

from controlplane.celery import app
from controlplane.databases import FACTS, READER
from controlplane.domain.errors import Refused
from controlplane.models import Instance, Suspicion

from .transaction import check_who_and_why

log = structlog.get_logger(__name__)

AGAIN_SECONDS = 1.0
"""A doubt said sooner after the last one adds nothing: who is doubted is being asked."""

KEPT_SECONDS = 3600.0
TASK = "controlplane.tasks.health.probe_suspects"
REACH = 200
"""Ids are given before they can be read: so many are looked back at, that none is missed which came out of turn."""

_sending = threading.Lock()


@dataclass(frozen=True, slots=True)
class Suspected:
    """`changed`: it is asked now; otherwise it was being asked already."""

    name: str
    changed: bool
    at: float
    sentence: str


def suspect(name: str, *, actor: str, reason: str = "") -> Suspected:
    """Raises Refused (not_found, conflict, malformed)."""
    check_who_and_why(actor, reason)
    instance = Instance.objects.using(FACTS).filter(name=name).first()
    if instance is None:
        raise Refused(f"no instance is named {name}", code="not_found")
    if instance.intent == Instance.Intent.RETIRED:
        raise Refused(f"{name} is retired: nobody asks for it", code="conflict")
    now = time.time()
    rows = Suspicion.objects.using(FACTS)
    known = rows.filter(instance_id=instance.pk).values_list("at", flat=True).first()
    if known is not None and 0 <= now - known < AGAIN_SECONDS:
        return Suspected(name, False, known, f"{name} is being asked already")
    try:
        with transaction.atomic(using=FACTS):
            rows.filter(at__lt=now - KEPT_SECONDS).delete()
            rows.filter(instance_id=instance.pk).delete()
            rows.create(instance_id=instance.pk, instance=name, at=now, by=actor, reason=reason)
            transaction.on_commit(_hurry, using=FACTS)
    except IntegrityError:
        return Suspected(name, False, now, f"{name} is being asked already")
    return Suspected(name, True, now, f"the ranks of {name} and its engine are asked now")


class Newest:
    """Reads what was suspected since it was asked last; of what was there before it began it says nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[int] | None = None
        self._last = 0

    def take(self) -> set[int]:
        """The instances, by id."""
        with self._lock:
            found = dict(
                Suspicion.objects.using(READER).filter(pk__gt=self._last - REACH).values_list("pk", "instance_id")
            )
            new = set() if self._seen is None else found.keys() - self._seen
            self._seen = set(found)
            self._last = max(found, default=self._last)
            return {found[pk] for pk in new}


def _hurry() -> None:
    """Have it done now; without a broker the next round does it, within a second or a little more."""
    if settings.REDIS_URL and _sending.acquire(blocking=False):
        threading.Thread(target=_send, name="suspicion", daemon=True).start()


def _send() -> None:
    try:
        app.send_task(TASK, expires=settings.MESSAGES_LAST_SECONDS, retry=False, ignore_result=True)
    except Exception as problem:
        log.info("suspicion_not_sent", problem=type(problem).__name__)
    finally:
        _sending.release()
