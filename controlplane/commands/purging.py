"""Purge what is stale: an instance for good, by request to the bootstrap process; launches out of the archive."""

from __future__ import annotations

import time
from dataclasses import dataclass

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.stale import check_purge
from controlplane.ledger.append import NewEvent
from controlplane.models import ArchivedLaunch, EngineHealth, Instance, MachineToken, PurgedInstance, Request
from controlplane.queries.stale import ANSWERS, StaleRow, stale
from controlplane.queries.wording import ago, counted

from . import instances
from .archiving import archive_older, count_older
from .requests import check_no_purge
from .stale import check_expected
from .transaction import check_who_and_why, record
from .trimming import Budget, count, delete


@dataclass(frozen=True, slots=True)
class Plan:
    """What a purge of an instance would take away, as sentences. `alive`: why it needs an override; blank when it does not."""

    instance: str
    alive: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """What went out of the archive, or would: how many launches."""

    count: int
    sentence: str


def plan(name: str, *, now: float) -> Plan:
    """Raises Refused (not_found)."""
    known = Instance.objects.using(FACTS).filter(name=name).first()
    if known is None:
        raise Refused(f"no instance is named {name}", code="not_found")
    found = next(iter(stale(now=now, instance=name)), None)
    return Plan(name, found.alive if found else f"{name} is not stale", tuple(_sentences(known, found, now)))


def purge(name: str, *, override: bool = False, actor: str, reason: str = "", expected: int | None = None) -> int:
    """Ask for the end of an instance: the number of the request. Its launches stay in the archive.

    Whoever is not retired is refused, and by the bootstrap process whoever still answers; `override` retires it first, and
    purges it all the same.
    Raises Refused (not_found, conflict), Stale.
    """
    check_who_and_why(actor, reason)
    known = Instance.objects.using(FACTS).filter(name=name).first()
    if known is None:
        raise Refused(f"no instance is named {name}", code="not_found")
    check_expected(known, expected)
    # Whether its ranks answer is found out when the request is carried out.
    check_purge(name, retired=known.intent == Instance.Intent.RETIRED, answering=0, override=override)
    if known.intent != Instance.Intent.RETIRED:
        instances.retire(name, actor=actor, reason=reason, expected=expected)

    def work() -> tuple[int, list[NewEvent]]:
        # Locked, so that nobody adds it again between this look and the request.
        found = Instance.objects.using(FACTS).select_for_update(no_key=True).filter(name=name).first()
        if found is None or found.intent != Instance.Intent.RETIRED:
            raise Refused(f"{name} was changed a moment ago; look and try again", code="conflict")
        check_no_purge(name)
        row = Request.objects.using(FACTS).create(
            kind=Request.Kind.PURGE,
            instance=name,
            override=override,
            actor=actor,
            reason=reason,
            made_at=time.time(),
        )
        data = {"request": row.pk, "kind": "purge", "slot": None, "override": override}
        return row.pk, [NewEvent("request.made", name, data, actor, reason)]

    return record(work)


def purge_archive(
    *, instance: str | None = None, older_than: float, actor: str, reason: str = "", now: float, dry_run: bool = False
) -> Gone:
    """Take launches out of the archive that ended longer than `older_than` seconds ago, of one instance or of all.

    Open launches are not in the archive, so nothing that lives can go.
    """
    check_who_and_why(actor, reason)
    if not older_than >= 0:
        raise Refused("an age is 0 seconds or more", code="malformed")
    before = now - older_than
    # Those that ended but still wait in the directory's tables go the same way.
    whose_ids = [None] if instance is None else _ids(instance)
    spent, waiting = Budget(30.0), 0
    for id_ in whose_ids:
        if dry_run:
            waiting += count_older(before, instance_id=id_)
        else:
            archive_older(before, instance_id=id_, now=now, budget=spent)
    rows = ArchivedLaunch.objects.using(FACTS).filter(ended_at__lte=before)
    rows = rows.filter(instance=instance) if instance is not None else rows
    number = rows.count() + waiting
    whose = f" of {instance}" if instance is not None else ""
    those = f"{whose} that ended {ago(before, now)} or earlier"
    said = f"{_launches(number)}{those}"
    if dry_run or not number:
        return Gone(number, f"{said} would go out of the archive" if number else f"there is no launch{whose} so old")
    data = {"instance": instance or "", "count": number, "before": before}

    def work() -> tuple[None, list[NewEvent]]:
        return None, [NewEvent("archive.purged", instance or "", data, actor, reason)]

    # The word before the deed: what a crash in between leaves goes with the next purge, and is told then.
    record(work)
    own, values = (" AND instance = %s", [instance]) if instance is not None else ("", [])
    gone = delete(ArchivedLaunch._meta.db_table, f"ended_at <= %s{own}", [before, *values], budget=Budget(60.0))
    count("archived launches", gone, now=now)
    left = f", {_launches(number - gone)} did not yet: purge again" if gone < number else ""
    return Gone(gone, f"{_launches(gone)}{those} went out of the archive{left}")


def _launches(number: int) -> str:
    return "1 launch" if number == 1 else f"{number} launches"


def _ids(name: str) -> list[int | None]:
    """Whoever is called so, and who was before."""
    known = Instance.objects.using(FACTS).filter(name=name).values_list("pk", flat=True)
    purged = PurgedInstance.objects.using(FACTS).filter(name=name).values_list("instance_id", flat=True)
    return [*known, *purged]


def _sentences(known: Instance, found: StaleRow | None, now: float) -> list[str]:
    said = []
    if found is not None:
        said.append(f"{known.name} is {found.what}, {ago(found.since, now)}: {found.reason}")
        if found.registered:
            is_are = "is" if found.registered == 1 else "are"
            said.append(
                f"{counted(found.registered, 'rank')} of it {is_are} registered, {found.answering} answered when last asked:"
                " they are asked again, and while one answers it is refused without an override"
            )
    engine = EngineHealth.objects.using(FACTS).filter(instance_id=known.pk, state__in=ANSWERS).first()
    if engine is not None and engine.answered_at is not None:
        said.append(
            f"its engine at {engine.at} answered {ago(engine.answered_at, now)}, and is not asked again for this: its ranks are"
        )
    said.append("its row, its sessions and its breakers go; its launches stay in the archive")
    now_refused = ", where now it is refused" if known.intent == Instance.Intent.RETIRED else ""
    said.append(f"whoever registers under its name afterwards is a new instance{now_refused}")
    tokens = MachineToken.objects.using(FACTS).filter(instance=known.name, revoked_at=None).count()
    if tokens:
        said.append(f"{counted(tokens, 'token')} for it alone stay valid for that name: revoke them")
    return said
