"""Cordon and uncordon an instance or a DP group: compare-and-set on the instance's version, with who and why."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.intent import Intent, Order, after
from controlplane.ledger.append import NewEvent
from controlplane.models import ALL_GROUPS, Drain, GroupIntent, Instance, Launch

from .closing import end_drain
from .stale import Stale, check_expected
from .transaction import check_who_and_why, record

__all__ = ["Changed", "Stale", "Subject", "cordon", "take", "uncordon"]

MAX_GROUP = 4095
OPEN_TO_COMMANDS = ("current", "candidate")


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of an instance or DP group (`group` -1: the whole instance). `version` is the instance's."""

    instance: str
    group: int
    changed: bool
    sentence: str
    intent: str
    version: int
    drain: int | None = None


def cordon(name: str, *, group: int = ALL_GROUPS, actor: str, reason: str = "", expected: int | None = None) -> Changed:
    """No new requests from whoever minds intents; what is in flight goes on. Raises Refused, Stale."""
    check_who_and_why(actor, reason)

    def work() -> tuple[Changed, list[NewEvent]]:
        subject = take(name, group, expected)
        if not subject.give(Order.CORDON):
            held = (
                "is cordoned already" if subject.intent == Intent.CORDONED else "is draining, which includes the cordon"
            )
            return subject.unchanged(f"{subject.what} {held}; nothing was changed"), []
        event = subject.keep(Intent.CORDONED, actor, reason)
        return subject.changed(
            f"{subject.what} is cordoned: the gateways and routers known here send nothing new to it"
        ), [event]

    return record(work)


def uncordon(
    name: str, *, group: int = ALL_GROUPS, actor: str, reason: str = "", expected: int | None = None
) -> Changed:
    """Enabled again, from cordoned or draining; a drain that was under way is cancelled. Raises Refused, Stale."""
    check_who_and_why(actor, reason)

    def work() -> tuple[Changed, list[NewEvent]]:
        subject = take(name, group, expected)
        if not subject.give(Order.RESUME):
            return subject.unchanged(f"{subject.what} is enabled already; nothing was changed"), []
        drain = subject.open_drain()
        event = subject.keep(Intent.ENABLED, actor, reason, drain=drain)
        ended = [end_drain(drain, "cancelled", "it was enabled again", actor, reason)] if drain else []
        also = "; its drain was cancelled" if drain else ""
        return subject.changed(f"{subject.what} is enabled again{also}{subject.beside()}", drain), [event, *ended]

    return record(work)


@dataclass(slots=True)
class Subject:
    """An instance or one of its DP groups, locked until the transaction ends."""

    instance: Instance
    group: int
    intent: Intent

    @property
    def what(self) -> str:
        name = self.instance.name
        return name if self.group == ALL_GROUPS else f"dp{self.group} of {name}"

    def give(self, order: Order) -> bool:
        """Whether the order changes something. Raises Refused when it cannot be given."""
        if self.instance.intent == Intent.RETIRED:
            raise Refused(f"{self.instance.name} is retired; add it again first", code="conflict")
        wanted = after(self.intent, order)
        if wanted is None:
            raise Refused(f"{self.what} is {self.intent}: there is no drain to be ended", code="conflict")
        return wanted is not self.intent

    def keep(self, intent: Intent, actor: str, reason: str, *, drain: Drain | None = None) -> NewEvent:
        """Store the intent; the event that says so."""
        before, now = self.intent, time.time()
        values: dict[str, Any] = {}
        if self.group == ALL_GROUPS:
            values = {"intent": intent, "intent_actor": actor, "intent_reason": reason, "intent_at": now}
        bump(self.instance, **values)
        if self.group != ALL_GROUPS:
            own = GroupIntent.objects.using(FACTS)
            if intent == Intent.ENABLED:
                own.filter(instance_id=self.instance.pk, group=self.group).delete()
            else:
                said = {"intent": intent, "actor": actor, "reason": reason, "at": now}
                own.update_or_create(instance_id=self.instance.pk, group=self.group, defaults=said)
        self.intent = intent
        data = {
            "dp": None if self.group == ALL_GROUPS else self.group,
            "before": str(before),
            "after": str(intent),
            "version": self.instance.version,
            "drain": drain.pk if drain else None,
        }
        return NewEvent("intent.changed", self.instance.name, data, actor, reason)

    def open_drain(self) -> Drain | None:
        own = Drain.objects.using(FACTS).filter(instance_id=self.instance.pk, group=self.group, ended_at=None)
        return own.select_for_update(no_key=True).first()

    def beside(self) -> str:
        """What keeps it from being used all the same, or what was not touched, as the end of a sentence."""
        if self.group != ALL_GROUPS:
            whole = self.instance.intent
            return f"; the instance as a whole is {whole} all the same" if whole != Intent.ENABLED else ""
        kept = GroupIntent.objects.using(FACTS).filter(instance_id=self.instance.pk).order_by("group")[:4]
        said = [f"dp{row.group} stays {row.intent}" for row in kept]
        return f"; {', '.join(said)}" if said else ""

    def changed(self, sentence: str, drain: Drain | None = None) -> Changed:
        return self._said(True, sentence, drain)

    def unchanged(self, sentence: str, drain: Drain | None = None) -> Changed:
        return self._said(False, sentence, drain)

    def _said(self, changed: bool, sentence: str, drain: Drain | None) -> Changed:
        instance = self.instance
        number = drain.pk if drain else None
        return Changed(instance.name, self.group, changed, sentence, str(self.intent), instance.version, number)


def take(name: str, group: int, expected: int | None) -> Subject:
    """Lock an instance, check that it is as the caller believes, and find the intent in question."""
    instance = Instance.objects.using(FACTS).select_for_update(no_key=True).filter(name=name).first()
    if instance is None:
        raise Refused(f"no instance is named {name}", code="not_found")
    check_expected(instance, expected)
    if group == ALL_GROUPS:
        return Subject(instance, group, Intent(instance.intent))
    row = GroupIntent.objects.using(FACTS).filter(instance_id=instance.pk, group=group).first()
    if row is None and instance.intent != Intent.RETIRED:
        _check_group(instance, group)
    return Subject(instance, group, Intent(row.intent) if row else Intent.ENABLED)


def bump(instance: Instance, **values: Any) -> None:
    """Change these columns, and the version. Somebody who wrote between our look and now makes it stale."""
    read = instance.version
    own = Instance.objects.using(FACTS).filter(pk=instance.pk, version=read)
    if not own.update(version=F("version") + 1, **values):
        instance.refresh_from_db(using=FACTS)
        raise Stale.of(instance, read)
    instance.version += 1
    for name, value in values.items():
        setattr(instance, name, value)


def _check_group(instance: Instance, group: int) -> None:
    """A group that nobody registered is a typing mistake; of a decode, which does not register, nobody can say."""
    if not 0 <= group <= MAX_GROUP:
        raise Refused(f"a DP group is between 0 and {MAX_GROUP}, not {group}", code="malformed")
    launches = Launch.objects.using(FACTS).filter(instance_id=instance.pk, ended_at=None, state__in=OPEN_TO_COMMANDS)
    sizes = list(launches.values_list("dp", flat=True))
    if not sizes and instance.role == Instance.Role.PREFILL:
        raise Refused(
            f"no rank of {instance.name} is registered, so its DP groups are not known; name the whole instance",
            code="conflict",
        )
    if sizes and group >= max(sizes):
        raise Refused(f"dp{group} does not exist in {instance.name}: it has {max(sizes)} DP groups", code="not_found")
