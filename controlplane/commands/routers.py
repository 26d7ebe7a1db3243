"""Real sglang-routers: add, change and remove what is said about one. Bringing it in step is in router_rounds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError

from controlplane.access.secrets import seal
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.names import NAME
from controlplane.ledger.append import NewEvent
from controlplane.models import Breaker, Drain, Instance, Router, RouterMember
from controlplane.probes import outgoing
from controlplane.queries.wording import counted

from . import router_facts
from .instances import KEEP, Keep
from .reaching import check_key_stays
from .router_rounds import reconcile, speaker
from .transaction import check_who_and_why, record

__all__ = ["KEEP", "Done", "Keep", "StaleRouter", "add", "edit", "reconcile", "remove"]

MAX_MEMBERS = 1000
MAX_KEY = 500


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, as a sentence; `version` is the router's now."""

    name: str
    changed: bool
    sentence: str
    version: int


class StaleRouter(Refused):
    """Somebody else changed the router since it was read; `difference` says how it stands now."""

    def __init__(self, router: Router, expected: int) -> None:
        super().__init__(
            f"router {router.name} was changed meanwhile: its version is {router.version}, not the one that was named;"
            " nothing was done",
            code="stale",
        )
        self.difference = {
            "version": {"expected": expected if expected > 0 else None, "now": router.version},
            "url": {"now": router.url},
            "instances": {"now": _members(router)},
        }


def add(
    name: str,
    url: str,
    instances: Sequence[str],
    metrics_url: str = "",
    api_key: str = "",
    *,
    actor: str,
    reason: str = "",
) -> Done:
    """Keep the router at `url` in step with these instances from now on. Raises Refused (malformed, conflict)."""
    check_who_and_why(actor, reason)
    if not NAME.fullmatch(name):
        raise Refused(
            "a router's name has 1 to 100 letters, digits, dots, underscores and hyphens, and starts with a letter or"
            " digit",
            code="malformed",
        )
    where, metrics = outgoing.check_url(url), _checked_metrics(metrics_url)
    key, names = seal(_checked_key(api_key)), _checked_names(instances)

    def work() -> tuple[Done, list[NewEvent]]:
        _check_free(name, where)
        _check_known(names)
        if Router.objects.using(FACTS).filter(name=name).exists():
            raise Refused(f"there is a router {name} already", code="conflict")
        router = Router.objects.using(FACTS).create(
            name=name, url=where, metrics_url=metrics, api_key=key, created_at=time.time(), actor=actor
        )
        members = [RouterMember(router_id=router.pk, instance=instance) for instance in names]
        RouterMember.objects.using(FACTS).bulk_create(members)
        event = NewEvent("router.added", "", _said(router, names), actor, reason)
        return Done(name, True, f"router {name} is kept in step from now on", router.version), [event]

    try:
        return record(work)
    except IntegrityError:
        raise Refused(f"there is a router {name} already", code="conflict") from None


def edit(
    name: str,
    *,
    url: str | Keep = KEEP,
    instances: Sequence[str] | Keep = KEEP,
    metrics_url: str | Keep = KEEP,
    api_key: str | Keep = KEEP,
    expected: int | None = None,
    actor: str,
    reason: str = "",
) -> Done:
    """Change what is given. Raises StaleRouter when `expected` is not its version, Refused otherwise.

    An instance that is taken off the list is taken out of the router.
    """
    check_who_and_why(actor, reason)
    given: dict[str, str] = {}
    if not isinstance(url, Keep):
        given["url"] = outgoing.check_url(url)
    if not isinstance(metrics_url, Keep):
        given["metrics_url"] = _checked_metrics(metrics_url)
    if not isinstance(api_key, Keep):
        given["api_key"] = seal(_checked_key(api_key))
    names = instances if isinstance(instances, Keep) else _checked_names(instances)

    def work() -> tuple[Done, list[NewEvent]]:
        router = _existing(name, expected)
        before = _said(router, _members(router))
        if "url" in given and given["url"] != router.url:
            _check_free(name, given["url"])
            _check_no_drain_waits(router)
            if "api_key" not in given:
                check_key_stays("its key", router.api_key, before=router.url, after=given["url"])
        for field, value in given.items():
            setattr(router, field, value)
        members = _members(router) if isinstance(names, Keep) else names
        after = _said(router, members)
        if after == before and "api_key" not in given:
            return Done(name, False, f"router {name} is like that already; nothing was changed", router.version), []
        if not isinstance(names, Keep):
            _check_known(names)
            _set_members(router, names)
        if after["url"] != before["url"]:
            # What was seen was seen at the old address.
            RouterMember.objects.using(FACTS).filter(router_id=router.pk).update(present=False, worker_id="")
            router.checked_at = None
        router.version += 1
        Router.objects.using(FACTS).filter(pk=router.pk).update(
            **given, version=router.version, state=Router.State.UNKNOWN, problem="", checked_at=router.checked_at
        )
        event = NewEvent("router.changed", "", {**after, "before": before}, actor, reason)
        closed = [] if after["metrics_url"] else router_facts.close_breakers(router)
        return Done(name, True, f"router {name} was changed", router.version), [event, *closed]

    return record(work)


def remove(name: str, *, expected: int | None = None, actor: str, reason: str = "") -> Done:
    """Let go of a router. The workers that it holds stay in it: nobody keeps it in step any more."""
    check_who_and_why(actor, reason)

    def work() -> tuple[Done, list[NewEvent]]:
        router = _existing(name, expected)
        _check_no_drain_waits(router)
        names = _members(router)
        held = RouterMember.objects.using(FACTS).filter(router_id=router.pk, present=True).count()
        RouterMember.objects.using(FACTS).filter(router_id=router.pk).delete()
        Breaker.objects.using(FACTS).filter(gateway=speaker(router.name)).delete()
        version = router.version
        event = NewEvent("router.removed", "", _said(router, names), actor, reason)
        router.delete(using=FACTS)
        stays = f"; {counted(held, 'worker')} may still be in it" if held else ""
        return Done(name, True, f"router {name} is not kept in step any more{stays}", version), [event]

    return record(work)


def _existing(name: str, expected: int | None) -> Router:
    router = Router.objects.using(FACTS).select_for_update(no_key=True).filter(name=name).first()
    if router is None:
        raise Refused(f"no router is named {name}", code="not_found")
    if expected is not None and expected != router.version:
        raise StaleRouter(router, expected)
    return router


def _check_no_drain_waits(router: Router) -> None:
    """While it may hold a draining worker, it must be seen to let it go: nobody else could stop it from sending there."""
    held = RouterMember.objects.using(FACTS).filter(router_id=router.pk, present=True).values("instance")
    waits = Drain.objects.using(FACTS).filter(instance__in=held, ended_at=None).order_by("instance").first()
    if waits is not None:
        raise Refused(
            f"router {router.name} may still send to {waits.instance}, which is draining: wait until it has let go, or"
            " force or cancel that drain first",
            code="conflict",
        )


def _members(router: Router) -> list[str]:
    rows = RouterMember.objects.using(FACTS).filter(router_id=router.pk, wanted=True)
    return sorted(rows.values_list("instance", flat=True))


def _set_members(router: Router, names: Iterable[str]) -> None:
    own = RouterMember.objects.using(FACTS).filter(router_id=router.pk)
    wanted = set(names)
    own.filter(instance__in=wanted).update(wanted=True)
    # Those that it may hold are kept in mind until they are seen to be gone.
    own.exclude(instance__in=wanted).filter(present=True).update(wanted=False)
    own.exclude(instance__in=wanted).filter(present=False).delete()
    known = set(own.values_list("instance", flat=True))
    new = [RouterMember(router_id=router.pk, instance=name) for name in sorted(wanted - known)]
    RouterMember.objects.using(FACTS).bulk_create(new)


def _said(router: Router, names: Sequence[str]) -> dict[str, Any]:
    return {
        "router": router.name,
        "url": router.url,
        "metrics_url": router.metrics_url,
        "instances": list(names),
    }


def _check_free(name: str, url: str) -> None:
    other = Router.objects.using(FACTS).filter(url=url).exclude(name=name).values_list("name", flat=True).first()
    if other is not None:
        raise Refused(f"the router at {url} is {other} already", code="conflict")


def _check_known(names: Sequence[str]) -> None:
    living = Instance.objects.using(FACTS).filter(name__in=names).exclude(intent=Instance.Intent.RETIRED)
    missing = sorted(set(names) - set(living.values_list("name", flat=True)))
    if missing:
        more = f", nor are {len(missing) - 1} more" if len(missing) > 1 else ""
        raise Refused(f"no instance is named {missing[0]}{more}", code="not_found")


def _checked_names(names: Sequence[str]) -> list[str]:
    if len(names) > MAX_MEMBERS:
        raise Refused(f"a router has at most {MAX_MEMBERS} instances, not {len(names)}", code="too_large")
    return sorted(set(names))


def _checked_metrics(url: str) -> str:
    return outgoing.check_url(url) if url else ""


def _checked_key(key: str) -> str:
    if len(key) > MAX_KEY or not key.isascii() or (key and not key.isprintable()):
        raise Refused(f"a key has at most {MAX_KEY} printable ASCII characters", code="malformed")
    return key
