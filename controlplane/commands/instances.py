"""Add, change and retire instances: what operators say about them, never who is registered in them."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from typing import Any, Final

from django.db import IntegrityError

from controlplane.access import secrets
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name
from controlplane.ledger.append import NewEvent
from controlplane.models import Drain, GroupIntent, Instance

from .closing import current_launch, end_drain
from .intent import bump
from .reaching import (
    check_alias,
    check_engine_key,
    check_engine_url,
    check_free,
    check_key_stays,
    check_observed,
    check_port,
    check_probing,
)
from .requests import check_no_purge
from .stale import Stale, check_expected
from .transaction import check_who_and_why, record

__all__ = ["KEEP", "Done", "Keep", "Stale", "add", "edit", "retire"]


class Keep(enum.Enum):
    """Says of a field that it stays as it is, where None takes it away."""

    AS_IT_IS = enum.auto()


KEEP: Final = Keep.AS_IT_IS


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, as a sentence, and what the operator should know besides."""

    name: str
    changed: bool
    sentence: str
    advice: tuple[str, ...] = ()


def add(
    name: str,
    *,
    role: str = Instance.Role.PREFILL,
    own_port: int | None = None,
    host_alias: str | None = None,
    engine_url: str = "",
    engine_key: str = "",
    observed_url: str = "",
    observed_engine_info_url: str = "",
    probe_seconds: float | None = None,
    fail_after: int | None = None,
    pass_after: int | None = None,
    actor: str,
    reason: str = "",
    expected: int | None = None,
) -> Done:
    """A new instance, or a retired one again with what is said now. A decode that is observed is also asked for its load
    there, unless `engine_url` says otherwise. Raises Refused (malformed, conflict), Stale."""
    check_who_and_why(actor, reason)
    check_name(name)
    if role not in Instance.Role.values:
        raise Refused(f"the role must be one of {', '.join(Instance.Role.values)}, not {role!r}", code="malformed")
    check_port(own_port)
    observed = check_observed(role, observed_url, observed_engine_info_url)
    said: dict[str, Any] = {
        "role": role,
        "own_port": own_port,
        "host_alias": check_alias(host_alias),
        "engine_url": check_engine_url(engine_url or (observed_url if role == Instance.Role.DECODE else "")),
        **observed,
        **check_probing(probe_seconds=probe_seconds, fail_after=fail_after, pass_after=pass_after),
        "engine_key": secrets.seal(check_engine_key(engine_key)),
    }

    def work() -> tuple[Done, list[NewEvent]]:
        known = _locked(name)
        if known is not None:
            check_expected(known, expected)
            check_no_purge(name)
        if known is not None and known.intent != Instance.Intent.RETIRED:
            raise Refused(f"there is an instance {name} already; it is {known.intent}", code="conflict")
        advice = check_free(name, own_port, said["host_alias"])
        now = time.time()
        values = said | {"intent": Instance.Intent.ENABLED, "retired_at": None, "observation": ""}
        values |= {"intent_actor": actor, "intent_reason": reason, "intent_at": now}
        if known is None:
            instance = Instance.objects.using(FACTS).create(name=name, created_at=now, **values)
        else:
            instance = known
            bump(instance, **values)
        event = NewEvent("instance.added", name, _said(instance), actor, reason)
        again = " again" if known is not None else ""
        return Done(name, True, f"{name} was added{again} as {role}{_reached_by(instance)}", advice), [event]

    try:
        return record(work)
    except IntegrityError:
        # It registered itself, or somebody else was faster by a moment.
        raise Refused(
            f"{name}, its port or its alias was taken a moment ago; look and try again", code="conflict"
        ) from None


def edit(
    name: str,
    *,
    own_port: int | Keep | None = KEEP,
    host_alias: str | Keep | None = KEEP,
    engine_url: str | Keep | None = KEEP,
    engine_key: str | Keep | None = KEEP,
    observed_url: str | Keep | None = KEEP,
    observed_engine_info_url: str | Keep | None = KEEP,
    probe_seconds: float | Keep | None = KEEP,
    fail_after: int | Keep | None = KEEP,
    pass_after: int | Keep | None = KEEP,
    actor: str,
    reason: str = "",
    expected: int | None = None,
) -> Done:
    """Give or take away the port or the DNS alias by which an instance is meant, where its engine is asked, or observed, and
    how often it is probed under which thresholds. None takes away. Raises Refused, Stale."""
    check_who_and_why(actor, reason)
    given: dict[str, Any] = {}
    if not isinstance(own_port, Keep):
        check_port(own_port)
        given["own_port"] = own_port
    if not isinstance(host_alias, Keep):
        given["host_alias"] = check_alias(host_alias)
    if not isinstance(engine_url, Keep):
        given["engine_url"] = check_engine_url(engine_url or "")
    for field, url in (("observed_url", observed_url), ("observed_engine_info_url", observed_engine_info_url)):
        if not isinstance(url, Keep):
            given[field] = check_engine_url(url or "")
    probing = {"probe_seconds": probe_seconds, "fail_after": fail_after, "pass_after": pass_after}
    given |= check_probing(**{name: value for name, value in probing.items() if not isinstance(value, Keep)})
    key = None if isinstance(engine_key, Keep) else check_engine_key(engine_key or "")

    def work() -> tuple[Done, list[NewEvent]]:
        instance = _locked(name)
        if instance is None:
            raise Refused(f"no instance is named {name}", code="not_found")
        check_expected(instance, expected)
        if instance.intent == Instance.Intent.RETIRED:
            raise Refused(f"{name} is retired; add it again to change it", code="conflict")
        check_observed(instance.role, given.get("observed_url", ""), "")
        changes = {field: value for field, value in given.items() if value != getattr(instance, field)}
        before = {field: getattr(instance, field) for field in TOLD}
        if key is not None and key != secrets.unseal(instance.engine_key):
            changes["engine_key"] = secrets.seal(key)
        if key is None and "engine_url" in changes:
            check_key_stays("its API key", instance.engine_key, before=instance.engine_url, after=changes["engine_url"])
            if instance.engine_key and not changes["engine_url"]:
                changes["engine_key"] = ""
        if not changes:
            return Done(name, False, f"{name} is like that already; nothing was changed"), []
        advice = check_free(
            name, changes.get("own_port", instance.own_port), changes.get("host_alias", instance.host_alias)
        )
        bump(instance, **changes)
        data = {**_said(instance), "before": before, "engine_key_changed": "engine_key" in changes}
        how = _reached_by(instance) or ", and has neither port nor alias of its own"
        return Done(name, True, f"{name} was changed{how}", advice), [
            NewEvent("instance.changed", name, data, actor, reason)
        ]

    try:
        return record(work)
    except IntegrityError:
        raise Refused("that port or alias was taken a moment ago; look and try again", code="conflict") from None


def retire(name: str, *, actor: str, reason: str = "", expected: int | None = None) -> Done:
    """End an instance: its wire answers 404 from now on, its port and alias are free for others, its drains end, and
    its DP groups have no intents any more. Raises Refused (not_found), Stale."""
    check_who_and_why(actor, reason)

    def work() -> tuple[Done, list[NewEvent]]:
        instance = _locked(name)
        if instance is None:
            raise Refused(f"no instance is named {name}", code="not_found")
        check_expected(instance, expected)
        if instance.intent == Instance.Intent.RETIRED:
            return Done(name, False, f"{name} is retired already; nothing was changed"), []
        before, was = _said(instance), str(instance.intent)
        now = time.time()
        ended, still_open = _end_drains(instance, actor, reason, now)
        GroupIntent.objects.using(FACTS).filter(instance_id=instance.pk).delete()
        intent = {"intent": Instance.Intent.RETIRED, "retired_at": now, "own_port": None, "host_alias": None}
        bump(instance, **intent, intent_actor=actor, intent_reason=reason, intent_at=now)
        data = {**before, "intent": was, "version": instance.version}
        freed = f", and port {before['own_port']} is free" if before["own_port"] else ""
        sentence = f"{name} is retired: whoever asks for it is told 404{freed}{still_open}"
        return Done(name, True, sentence), [*ended, NewEvent("instance.retired", name, data, actor, reason)]

    return record(work)


REACHED = ("own_port", "host_alias", "engine_url", "observed_url", "observed_engine_info_url")
TOLD = (*REACHED, "probe_seconds", "fail_after", "pass_after")


def _locked(name: str) -> Instance | None:
    return Instance.objects.using(FACTS).select_for_update(no_key=True).filter(name=name).first()


def _end_drains(instance: Instance, actor: str, reason: str, at: float) -> tuple[list[NewEvent], str]:
    """The events, and what was still open, as the end of a sentence. `at` tells which retirement ended them."""
    own = Drain.objects.using(FACTS).select_for_update(no_key=True).filter(instance_id=instance.pk, ended_at=None)
    events, unfinished = [], []
    drained_whole = False
    for drain in own.order_by("id"):
        drained = drain.progress == Drain.Progress.DRAINED
        drained_whole = drained_whole or (drained and drain.group < 0)
        if not drained:
            unfinished.append(f"drain {drain.pk} was {drain.progress}")
        result = "drained" if drained else "cancelled"
        events.append(end_drain(drain, result, "it was retired", actor, reason, at=at))
    launch = current_launch(instance.pk)
    if launch is not None and not drained_whole:
        unfinished.append(f"launch {launch} was registered and not drained")
    return events, f"; still open: {', '.join(unfinished)}" if unfinished else ""


def _said(instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name,
        "role": str(instance.role),
        **{field: getattr(instance, field) for field in TOLD},
        "version": instance.version,
    }


def _reached_by(instance: Instance) -> str:
    ways = []
    if instance.own_port:
        ways.append(f"port {instance.own_port}")
    if instance.host_alias:
        ways.append(f"the name {instance.host_alias}")
    reached = f", reached by {' and '.join(ways)}" if ways else ""
    seen = " and ".join(filter(None, (instance.observed_url, instance.observed_engine_info_url)))
    return f"{reached}, observed at {seen}" if seen else reached
