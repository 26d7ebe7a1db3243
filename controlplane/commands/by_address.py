"""Whose rank listens at an address: how somebody who was given nothing but a rank's socket names an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controlplane.databases import FACTS
from controlplane.domain.addresses import bracketed, canonical_host
from controlplane.domain.errors import Refused
from controlplane.domain.reports import EvidenceReport
from controlplane.ledger.tail import Cursor, head
from controlplane.models import Instance, Launch, Rank

MOST = 200
"""Addresses of one report. More than a decode has prefill ranks is not looked for."""

MOST_KNOWN = 20_000


def named(reports: Sequence[EvidenceReport]) -> list[EvidenceReport]:
    """With the name of the instance where its rank's `ip:port` was said (a name has no colon). One that nobody has, or two
    instances have, stays as it is."""
    found = instances_at({report.instance for report in reports if ":" in report.instance})
    if not found:
        return list(reports)
    return [replace(report, instance=found.get(report.instance, report.instance)) for report in reports]


def instances_at(addresses: Iterable[str]) -> dict[str, str]:
    """The names of the instances, by the addresses as they were said; of ranks that have not left, in launches that go on."""
    asked = {said: at for said in sorted(addresses)[:MOST] if (at := _read(said)) is not None}
    if not asked:
        return {}
    # Ranks have no index by address, which each registration would pay for; workers say the same addresses again and again.
    known = _known_at(head())
    new = {said: at for said, at in asked.items() if said not in known}
    if new:
        found = _looked_up(new)
        known.update({said: found.get(said) for said in new})
    return {said: name for said in asked if (name := known.get(said)) is not None}


_known: tuple[Cursor | None, dict[str, str | None]] = (None, {})


def _known_at(now: Cursor) -> dict[str, str | None]:
    """What was found since the last change of any fact."""
    global _known
    at, names = _known
    if at != now or len(names) > MOST_KNOWN:
        _known = now, (names := {})
    return names


def _looked_up(asked: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    hosts, ports = zip(*asked.values(), strict=True)
    # Both: a fleet whose ranks have the same ports on all hosts is no larger an answer than another.
    rows = Rank.objects.using(FACTS).filter(ip__in=set(hosts), port__in=set(ports), left_at=None)
    there = list(rows.values_list("ip", "port", "instance_id", "launch"))
    ended = set(
        Launch.objects.using(FACTS)
        .filter(instance_id__in={row[2] for row in there})
        .exclude(ended_at=None)
        .values_list("instance_id", "number")
    )
    holders: dict[tuple[str, int], set[int]] = {}
    for ip, port, instance, launch in there:
        if (instance, launch) not in ended:
            holders.setdefault((ip, port), set()).add(instance)
    only = {said: next(iter(holders[at])) for said, at in asked.items() if len(holders.get(at, ())) == 1}
    names = dict(Instance.objects.using(FACTS).filter(pk__in=set(only.values())).values_list("pk", "name"))
    found = {said: names[instance] for said, instance in only.items() if instance in names}
    return {**_observed_at({said: at for said, at in asked.items() if said not in found}), **found}


def _observed_at(asked: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Whoever could not even be told a rank knows the engine's own bootstrap server: of observed instances we know it too."""
    urls = {f"http://{bracketed(host)}:{port}": said for said, (host, port) in asked.items()}
    rows = Instance.objects.using(FACTS).filter(observed_url__in=urls) if urls else Instance.objects.none()
    held: dict[str, list[str]] = {}
    for url, name in rows.values_list("observed_url", "name"):
        held.setdefault(url, []).append(name)
    return {urls[url]: here[0] for url, here in held.items() if len(here) == 1}


def _read(said: str) -> tuple[str, int] | None:
    host, _, port = said.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) < 6):
        return None
    try:
        return canonical_host(host), int(port)
    except Refused:
        return None
