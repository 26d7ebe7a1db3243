"""Ask the bootstrap process to evict, supersede, re-admit or re-register: a row in its inbox, with an event."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db.models import QuerySet

from controlplane.databases import FACTS, READER
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.ledger.append import NewEvent
from controlplane.models import Instance, Launch, Rank, Request

from .transaction import check_who_and_why, record

POLL_SECONDS = 0.05
ASKED = tuple(kind.value for kind in Request.Kind if kind is not Request.Kind.PURGE)
"""What is asked for here; a purge has its own way."""

OF_A_LAUNCH = (Request.Kind.EVICT, Request.Kind.SUPERSEDE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the bootstrap process did about a request, in its own words."""

    granted: bool
    sentence: str


def make(
    kind: str, instance: str, slot: Slot | None = None, *, launch: int | None = None, actor: str, reason: str = ""
) -> int:
    """The id of a new request; `launch`: an evict or a supersede concerns no other.

    Raises Refused, with nothing stored, when it names what does not exist.
    """
    check_who_and_why(actor, reason)
    if kind not in ASKED:
        raise Refused(f"a request is one of {', '.join(ASKED)}, not {kind!r}", code="malformed")
    if kind == Request.Kind.SUPERSEDE and slot is not None:
        raise Refused("supersede concerns a whole launch: leave the slot away", code="malformed")
    if launch is not None and kind not in OF_A_LAUNCH:
        raise Refused(f"{kind} concerns no one launch: leave the launch away", code="malformed")

    def work() -> tuple[int, list[NewEvent]]:
        known = Instance.objects.using(FACTS).filter(name=instance).first()
        if known is None:
            raise Refused(f"no instance is named {instance}", code="not_found")
        if known.intent == Instance.Intent.RETIRED and kind != Request.Kind.EVICT:
            raise Refused(f"{instance} is retired; add it again first", code="conflict")
        if slot is not None:
            _check_slot(kind, known, slot, launch)
        elif launch is not None and not _open(known, launch).exists():
            raise Refused(f"{instance} has no launch {launch} that is open", code="not_found")
        where = ".".join(map(str, slot)) if slot is not None else ""
        row = Request.objects.using(FACTS).create(
            kind=kind,
            instance=instance,
            slot=where,
            launch=launch,
            actor=actor,
            reason=reason,
            made_at=time.time(),
        )
        data = {"request": row.pk, "kind": kind, "slot": list(slot) if slot is not None else None}
        if launch is not None:
            data["launch"] = launch
        return row.pk, [NewEvent("request.made", instance, data, actor, reason)]

    return record(work)


def check_no_purge(instance: str) -> None:
    """Refuse (conflict) what would bring back an instance that is about to be purged. In the transaction that locks it."""
    pending = Request.objects.using(FACTS).filter(kind=Request.Kind.PURGE, instance=instance, answered_at=None)
    if pending.exists():
        raise Refused(f"a purge of {instance} is under way; wait for its answer", code="conflict")


def wait_for_answer(request: int, *, timeout: float) -> Answer | None:
    """The answer, once it is stored; None when `timeout` seconds went by. The request stays in the inbox then."""
    until = time.monotonic() + timeout
    while True:
        row = Request.objects.using(READER).filter(pk=request).first()
        if row is not None and row.answered_at is not None:
            return Answer(bool(row.granted), row.answer)
        left = until - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(POLL_SECONDS, left))


def _open(instance: Instance, launch: int | None = None) -> QuerySet[Launch]:
    found = Launch.objects.using(FACTS).filter(instance_id=instance.pk, ended_at=None)
    return found if launch is None else found.filter(number=launch)


def _check_slot(kind: str, instance: Instance, slot: Slot, launch: int | None) -> None:
    """Evict needs somebody who sits there; the others need somebody who ever did."""
    dp, cp, tp, pp = slot
    ranks = Rank.objects.using(FACTS).filter(instance_id=instance.pk, dp=dp, cp=cp, tp=tp, pp=pp)
    if kind == Request.Kind.EVICT:
        if not ranks.filter(left_at=None, launch__in=_open(instance, launch).values("number")).exists():
            where = instance.name if launch is None else f"launch {launch} of {instance.name}"
            raise Refused(f"{slot} is not registered in {where}", code="not_found")
    elif not ranks.exists():
        raise Refused(f"{slot} never registered in {instance.name}", code="not_found")
