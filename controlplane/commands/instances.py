"""Add, change and retire instances: what operators say about them, never who is registered in them."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError

from controlplane.databases import FACTS
from controlplane.domain.addresses import bracketed, canonical_host, is_loopback, parse_ip
from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name
from controlplane.ledger.append import NewEvent
from controlplane.models import Instance

from .transaction import check_who_and_why, record

OUR_PORTS = ("PDCP_KV_PORT", "PDCP_ENGINE_INFO_PORT", "PDCP_WEB_PORT")


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
    actor: str,
    reason: str = "",
) -> Done:
    """A new instance, or a retired one again with what is said now. Raises Refused (malformed, conflict)."""
    check_who_and_why(actor, reason)
    check_name(name)
    if role not in Instance.Role.values:
        raise Refused(f"the role must be one of {', '.join(Instance.Role.values)}, not {role!r}", code="malformed")
    alias = _checked_alias(host_alias)
    _check_port(own_port)

    def work() -> tuple[Done, list[NewEvent]]:
        known = _locked(name)
        if known is not None and known.intent != Instance.Intent.RETIRED:
            raise Refused(f"there is an instance {name} already; it is {known.intent}", code="conflict")
        advice = _check_free(name, own_port, alias)
        instance = known or Instance(name=name, created_at=time.time())
        instance.role, instance.own_port, instance.host_alias = role, own_port, alias
        instance.intent, instance.retired_at = Instance.Intent.ENABLED, None
        if known is None:
            instance.save(using=FACTS, force_insert=True)
        else:
            _update(instance, "role", "own_port", "host_alias", "intent", "retired_at")
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
    actor: str,
    reason: str = "",
) -> Done:
    """Give or take away the port or the DNS alias by which an instance is meant. None takes away."""
    check_who_and_why(actor, reason)
    alias = host_alias if isinstance(host_alias, Keep) else _checked_alias(host_alias)
    if not isinstance(own_port, Keep):
        _check_port(own_port)

    def work() -> tuple[Done, list[NewEvent]]:
        instance = _existing(name)
        if instance.intent == Instance.Intent.RETIRED:
            raise Refused(f"{name} is retired; add it again to change it", code="conflict")
        before = {"own_port": instance.own_port, "host_alias": instance.host_alias}
        if not isinstance(own_port, Keep):
            instance.own_port = own_port
        if not isinstance(alias, Keep):
            instance.host_alias = alias
        if before == {"own_port": instance.own_port, "host_alias": instance.host_alias}:
            return Done(name, False, f"{name} is like that already; nothing was changed"), []
        advice = _check_free(name, instance.own_port, instance.host_alias)
        _update(instance, "own_port", "host_alias")
        event = NewEvent("instance.changed", name, {**_said(instance), "before": before}, actor, reason)
        how = _reached_by(instance) or ", and has neither port nor alias of its own"
        return Done(name, True, f"{name} was changed{how}", advice), [event]

    try:
        return record(work)
    except IntegrityError:
        raise Refused("that port or alias was taken a moment ago; look and try again", code="conflict") from None


def retire(name: str, *, actor: str, reason: str = "") -> Done:
    """End an instance: its wire answers 404 from now on, and its port and alias are free for others."""
    check_who_and_why(actor, reason)

    def work() -> tuple[Done, list[NewEvent]]:
        instance = _existing(name)
        if instance.intent == Instance.Intent.RETIRED:
            return Done(name, False, f"{name} is retired already; nothing was changed"), []
        before = _said(instance)
        instance.intent, instance.retired_at = Instance.Intent.RETIRED, time.time()
        instance.own_port = instance.host_alias = None
        _update(instance, "intent", "retired_at", "own_port", "host_alias")
        event = NewEvent("instance.retired", name, before, actor, reason)
        freed = f", and port {before['own_port']} is free" if before["own_port"] else ""
        sentence = f"{name} is retired: whoever asks for it is told 404{freed}"
        return Done(name, True, sentence), [event]

    return record(work)


def _locked(name: str) -> Instance | None:
    return Instance.objects.using(FACTS).select_for_update(no_key=True).filter(name=name).first()


def _existing(name: str) -> Instance:
    instance = _locked(name)
    if instance is None:
        raise Refused(f"no instance is named {name}", code="not_found")
    return instance


def _update(instance: Instance, *names: str) -> None:
    """Only these columns: the others are the bootstrap process's, which may have written them since."""
    Instance.objects.using(FACTS).filter(pk=instance.pk).update(**{name: getattr(instance, name) for name in names})


def _said(instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name,
        "role": str(instance.role),
        "own_port": instance.own_port,
        "host_alias": instance.host_alias,
    }


def _reached_by(instance: Instance) -> str:
    ways = []
    if instance.own_port:
        ways.append(f"port {instance.own_port}")
    if instance.host_alias:
        ways.append(f"the name {instance.host_alias}")
    return f", reached by {' and '.join(ways)}" if ways else ""


def _check_port(port: int | None) -> None:
    if port is None:
        return
    if not 1 <= port <= 65535:
        raise Refused(f"a port is between 1 and 65535, not {port}", code="malformed")
    for variable in OUR_PORTS:
        if port == getattr(settings, variable):
            raise Refused(f"port {port} is this control plane's own ({variable})", code="conflict")


def _checked_alias(alias: str | None) -> str | None:
    if alias is None:
        return None
    host = canonical_host(alias).rstrip(".")
    if parse_ip(host) is not None or is_loopback(host):
        raise Refused(
            f"the alias must be a DNS name of this instance alone, not {bracketed(host)}: an address, like localhost,"
            " means the listener and not an instance",
            code="malformed",
        )
    return host


def _check_free(name: str, port: int | None, alias: str | None) -> tuple[str, ...]:
    """Refuse what another instance has; advise where two ports could be confused."""
    others = Instance.objects.using(FACTS).exclude(name=name)
    taken: dict[int, str] = {}
    if port is not None:
        taken = {other: whose for other, whose in others.values_list("own_port", "name") if other is not None}
    if port in taken:
        raise Refused(f"port {port} belongs to {taken[port]}", code="conflict")
    if alias is not None:
        holder = others.filter(host_alias=alias).values_list("name", flat=True).first()
        if holder is not None:
            raise Refused(f"the name {alias} belongs to {holder}", code="conflict")
    return _confusable(port, taken) if port is not None else ()


def _confusable(port: int, taken: dict[int, str]) -> tuple[str, ...]:
    """SGLang's decodes clear what they cached by the first characters of `host:port`: 899 would clear 8998 as well."""
    ours = {getattr(settings, variable): variable for variable in OUR_PORTS[:1]}
    alike = [
        f"{other} ({whose})"
        for other, whose in sorted({**taken, **ours}.items())
        if str(other).startswith(str(port)) or str(port).startswith(str(other))
    ]
    if not alike:
        return ()
    return (
        f"port {port} and {', '.join(alike[:3])} begin alike: a decode that drops one from its cache drops the other"
        " as well; ports with the same number of digits never do that",
    )
