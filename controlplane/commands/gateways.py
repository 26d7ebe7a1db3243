"""Gateways: they join, acknowledge how far they have followed the ledger, and leave. What they report is in reports."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.names import NAME
from controlplane.ledger.append import NewEvent
from controlplane.models import Breaker, Gateway, LedgerHead, OpenRooms
from controlplane.probes.urls import canonical

from .reports import report_breakers, report_open_rooms, report_outcomes, still_joined
from .transaction import check_who_and_why, record

__all__ = [
    "Acknowledged",
    "Joined",
    "acknowledge",
    "join",
    "leave",
    "report_breakers",
    "report_open_rooms",
    "report_outcomes",
]

LEASE_SECONDS = 15.0
LONGEST_LEASE_SECONDS = 3600.0
MAX_GATEWAYS = 1000


@dataclass(frozen=True, slots=True)
class Joined:
    """`changed`: the ledger has it. From (ledger_id, revision) on, a snapshot is new enough to serve from."""

    name: str
    changed: bool
    sentence: str
    ledger_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What counts as acknowledged now: the highest revision said so far."""

    ledger_id: str
    revision: int


def join(
    name: str, url: str = "", lease_seconds: float = LEASE_SECONDS, now: float | None = None, *, actor: str = ""
) -> Joined:
    """A gateway started. Joining again is no event, but a new life: what it had acknowledged counts no more.

    It may have started from a snapshot older than what the process before it had acknowledged.
    """
    at = time.time() if now is None else now
    _check_name(name)
    where = canonical(url) if url else ""
    if not (math.isfinite(lease_seconds) and 1 <= lease_seconds <= LONGEST_LEASE_SECONDS):
        raise Refused(f"a lease is from 1 to {LONGEST_LEASE_SECONDS:g} seconds", code="malformed")
    who = actor or f"gateway:{name}"

    def work() -> tuple[Joined, list[NewEvent]]:
        head = LedgerHead.objects.using(FACTS).get(id=1)
        life: dict[str, Any] = {
            "joined_by": who,
            "url": where,
            "lease_seconds": lease_seconds,
            "seen_at": at,
            "left_at": None,
        }
        life |= {"acknowledged_ledger": "", "acknowledged_revision": 0, "registered_at": at}
        # Whoever makes the row was first, however many join under this name at once.
        known, new = Gateway.objects.using(FACTS).get_or_create(name=name, defaults=life)
        if new:
            _check_number()
        else:
            known = Gateway.objects.using(FACTS).select_for_update(no_key=True).get(pk=known.pk)
            if known.left_at is None and known.url == where:
                Gateway.objects.using(FACTS).filter(pk=known.pk).update(**life)
                return Joined(name, False, f"{name} has joined already", head.ledger_id, head.revision), []
            Gateway.objects.using(FACTS).filter(pk=known.pk).update(**life)
            # Whoever spoke under this name before speaks no more.
            Breaker.objects.using(FACTS).filter(gateway=name).delete()
        event = NewEvent("gateway.joined", "", {"gateway": name, "url": where}, who)
        return Joined(name, True, f"{name} joined", head.ledger_id, head.revision), [event]

    return record(work)


def acknowledge(name: str, ledger_id: str, revision: int, now: float | None = None) -> Acknowledged:
    """It serves from a snapshot that is at least this new. A lower revision than before changes nothing."""
    at = time.time() if now is None else now
    if isinstance(revision, bool) or not isinstance(revision, int) or not 0 <= revision < 2**63:
        raise Refused("revision must be a whole number, and not negative", code="malformed")

    def work() -> tuple[Acknowledged, list[NewEvent]]:
        gateway = still_joined(name, at)
        head = LedgerHead.objects.using(FACTS).get(id=1)
        if ledger_id != head.ledger_id:
            raise Refused("that is another ledger than this one: take a new snapshot", code="conflict")
        if revision > head.revision:
            raise Refused(f"revision {revision} is beyond the ledger's head, {head.revision}", code="conflict")
        before = gateway.acknowledged_revision if gateway.acknowledged_ledger == ledger_id else -1
        if revision > before:
            Gateway.objects.using(FACTS).filter(pk=gateway.pk).update(
                acknowledged_ledger=ledger_id, acknowledged_revision=revision
            )
        return Acknowledged(ledger_id, max(revision, before)), []

    return record(work)


def leave(name: str, *, actor: str = "", reason: str = "", why: str = "", now: float | None = None) -> bool:
    """It admits nothing any more, by its own word or an operator's. False when it had left already."""
    at = time.time() if now is None else now
    who = actor or f"gateway:{name}"
    check_who_and_why(who, reason)

    def work() -> tuple[bool, list[NewEvent]]:
        known = Gateway.objects.using(FACTS).select_for_update(no_key=True).filter(name=name).first()
        if known is None:
            raise Refused(f"no gateway is named {name}", code="not_found")
        if known.left_at is not None:
            return False, []
        Gateway.objects.using(FACTS).filter(pk=known.pk).update(left_at=at)
        Breaker.objects.using(FACTS).filter(gateway=name).delete()
        # What it said to be open stays: nobody can say what became of that, unless an engine or a worker does.
        OpenRooms.objects.using(FACTS).filter(kind=OpenRooms.Kind.GATEWAY, source=name, open_rooms=0).delete()
        said = why or ("it was removed" if actor else "it said goodbye")
        return True, [NewEvent("gateway.left", "", {"gateway": name, "why": said}, who, reason)]

    return record(work)


def _check_number() -> None:
    if Gateway.objects.using(FACTS).filter(left_at=None).count() > MAX_GATEWAYS:
        raise Refused(f"{MAX_GATEWAYS} gateways have joined; let some of them leave first", code="too_many")


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Refused(
            "a gateway's name has 1 to 100 letters, digits, dots, underscores and hyphens, and starts with a letter or"
            " digit",
            code="malformed",
        )
