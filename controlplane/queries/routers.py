"""Real sglang-routers: how they stand, as rows, and which workers each instance could be to them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.domain.routable import Fact
from controlplane.domain.routers import NotNow, Worker
from controlplane.models import Instance, Router, RouterMember

from . import routable
from .fleet import snapshot
from .wording import ago, counted


@dataclass(frozen=True, slots=True)
class MemberRow:
    """An instance that a router shall hold, or (not `wanted`) held until it was taken off its list.

    `present`: the router may send to it. `sentence` says why it does not. `healthy`: what the router thinks of it.
    """

    instance: str
    wanted: bool
    present: bool
    worker_id: str
    worker_url: str
    sentence: str
    changed_at: float | None
    healthy: bool | None = None


@dataclass(frozen=True, slots=True)
class RouterRow:
    """`has_key`: it is asked with a key, which is never shown. `version` is what an edit compares."""

    name: str
    url: str
    metrics_url: str
    has_key: bool
    created_at: float
    actor: str
    version: int
    state: str
    problem: str
    checked_at: float | None
    restarts: int
    members: tuple[MemberRow, ...]

    @property
    def instances(self) -> tuple[str, ...]:
        return tuple(member.instance for member in self.members if member.wanted)

    def sentence(self, now: float) -> str:
        if self.checked_at is None:
            away = self.state == Router.State.AWAY
            return (
                f"{self.name} was never in reach: {self.problem}." if away else f"{self.name} has not been asked yet."
            )
        when = ago(self.checked_at, now)
        if self.state == Router.State.AWAY:
            return f"{self.name} was last in reach {when}: {self.problem}. It may go on with the workers that it had."
        present = sum(member.present for member in self.members)
        held = f"holds {present} of {counted(len(self.instances), 'instance')}"
        return f"{self.name} {held}, as of {when}." + (f" {self.problem}." if self.problem else "")


def listing() -> tuple[RouterRow, ...]:
    """All routers by name, with their members: two queries."""
    with snapshot():
        return _rows(Router.objects.using(READER).order_by("name"), RouterMember.objects.using(READER).all())


def router(name: str) -> RouterRow:
    """Raises Refused (not_found)."""
    with snapshot():
        found = list(Router.objects.using(READER).filter(name=name))
        rows = _rows(found, RouterMember.objects.using(READER).filter(router_id__in=[one.pk for one in found]))
    if not rows:
        raise Refused(f"no router is named {name}", code="not_found")
    return rows[0]


def workers(*, now: float) -> dict[str, Worker | NotNow]:
    """By instance: the worker it is to a router, or why it is none now.

    A router's own breaker takes nobody off its list: it would never see him recover.
    """
    with snapshot():
        verdicts = {row.name: row.verdict for row in routable.wholes(now=now)}
        known = list(Instance.objects.using(READER).order_by("name"))
    living = [one for one in known if one.intent != Instance.Intent.RETIRED]
    sharing = [one.name for one in living if not one.own_port and one.role != Instance.Role.DECODE]
    urls = Counter(one.engine_url for one in living)
    found: dict[str, Worker | NotNow] = {}
    for one in known:
        against = [reason for reason in verdicts[one.name].reasons if reason.blocks and reason.fact != Fact.BREAKER]
        if against:
            found[one.name] = NotNow(against[0].sentence, one.engine_url)
        elif one.engine_url and urls[one.engine_url] > 1:
            found[one.name] = NotNow(f"{one.name} has its engine URL in common with another instance", one.engine_url)
        else:
            found[one.name] = _worker(one, sharing)
    return found


def _worker(one: Instance, sharing: list[str]) -> Worker | NotNow:
    if not one.engine_url:
        return NotNow(f"{one.name} has no engine URL")
    if one.role == Instance.Role.DECODE:
        return Worker(one.engine_url, "decode")
    if one.own_port:
        return Worker(one.engine_url, "prefill", one.own_port)
    # Decodes go to the engine's own host and this port, so there it must be clear who is meant.
    if sharing == [one.name] or (one.host_alias and urlsplit(one.engine_url).hostname == one.host_alias):
        return Worker(one.engine_url, "prefill", settings.PDCP_KV_PORT)
    return NotNow(
        f"{one.name} has no bootstrap port of its own, and others share port {settings.PDCP_KV_PORT}: a router would"
        " send decodes to its neighbours",
        one.engine_url,
    )


def _rows(routers: Iterable[Router], members: Iterable[RouterMember]) -> tuple[RouterRow, ...]:
    own: dict[int, list[MemberRow]] = defaultdict(list)
    for row in sorted(members, key=lambda member: member.instance):
        own[row.router_id].append(
            MemberRow(
                row.instance,
                row.wanted,
                row.present,
                row.worker_id,
                row.worker_url,
                row.sentence,
                row.changed_at,
                row.healthy,
            )
        )
    return tuple(
        RouterRow(
            one.name,
            one.url,
            one.metrics_url,
            bool(one.api_key),
            one.created_at,
            one.actor,
            one.version,
            str(one.state),
            one.problem,
            one.checked_at,
            one.restarts,
            tuple(own[one.pk]),
        )
        for one in routers
    )


def keyed(names: Collection[str]) -> list[str]:
    """Those of `names` whose engine has an API key."""
    found = Instance.objects.using(READER).filter(name__in=list(names)).exclude(engine_key="")
    return sorted(found.values_list("name", flat=True))
