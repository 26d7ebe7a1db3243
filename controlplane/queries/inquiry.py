"""Why an instance does not work, asked and answered in order: reads what `domain.inquiry` weighs. Nobody is asked anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from controlplane.databases import READER
from controlplane.domain import inquiry as domain
from controlplane.domain.engine_health import State
from controlplane.domain.inquiry_facts import (
    Case,
    EngineSeen,
    Front,
    Gone,
    Leading,
    Names,
    PortSeen,
    Roster,
    Seated,
    Shut,
    Told,
)
from controlplane.domain.questions import Inquiry
from controlplane.domain.routable import Fact
from controlplane.models import Gateway, Router

from . import closeup, telling_standing
from .closeup import CloseUp
from .fleet import snapshot
from .partners import partners
from .rows import InstanceRow
from .sql import read
from .standing import ROUTER_LEASE_SECONDS
from .wording import slot_name

LATELY_SECONDS = 600.0
"""For how long a refused request explains that somebody is missing."""

LOOK_BACK = 20_000
"""How many revisions are looked through for those."""

REFUSALS = 20
NAMESAKES = 16
FRONTS = 50
LISTENER = """
SELECT kind, at, data FROM controlplane_event
WHERE instance = %s AND kind IN ('listener.opened', 'listener.failed') ORDER BY revision DESC LIMIT 1"""
REFUSED = f"""
SELECT instance, at, data FROM controlplane_event
WHERE instance IN (%s, '') AND revision > %s AND at > %s AND kind = 'registration.refused'
ORDER BY revision DESC LIMIT {REFUSALS}"""
SHARES = """(own_port IS NULL AND role <> 'decode' AND observed_url = '' AND observed_engine_info_url = ''
 AND (next_launch > 1 OR (role <> 'seed' AND NOT EXISTS (
  SELECT 1 FROM controlplane_engineinfo e WHERE e.instance_id = controlplane_instance.id))))"""
"""Whoever has published weights, and never had a rank, is not meant by those who name none."""

NEIGHBOURS = f"""
SELECT name, engine_url, observed_url, CASE WHEN {SHARES} THEN 1 ELSE 0 END, COUNT(*) OVER ()
FROM controlplane_instance WHERE intent <> 'retired' AND name <> %s AND (
 (engine_url <> '' AND engine_url = %s) OR (observed_url <> '' AND observed_url = %s) OR {SHARES}
) ORDER BY CASE WHEN (engine_url <> '' AND engine_url = %s) OR (observed_url <> '' AND observed_url = %s) THEN 0 ELSE 1 END,
 name LIMIT {NAMESAKES}"""
ROUTERS = f"""
SELECT r.name, r.state, r.problem, r.checked_at, r.breakers_at, m.present, m.sentence, m.healthy
FROM controlplane_routermember m JOIN controlplane_router r ON r.id = m.router_id
WHERE m.instance = %s AND m.wanted ORDER BY r.name LIMIT {FRONTS}"""


def inquire(name: str, *, now: float) -> Inquiry:
    """Raises Refused (not_found)."""
    with snapshot():
        return about(closeup.look(name, now=now), now=now)


def about(seen: CloseUp, *, now: float) -> Inquiry:
    """A constant number of queries, whatever the size of the instance. Call it in the snapshot that `seen` is from."""
    return domain.inquire(_case(seen, now), now=now)


def _case(seen: CloseUp, now: float) -> Case:
    one = seen.instance
    since = [one.name, seen.revision - LOOK_BACK, now - LATELY_SECONDS]
    asked = [(name, _told(at, data)) for name, at, data in read(REFUSED, since)]
    # Whoever was refused something else is registered, or is no rank.
    refused = [(name, told) for name, told in asked if told.what.startswith("PUT ") and told.what.endswith("/route")]
    against = [reason for reason in seen.row.verdict.reasons if reason.blocks and reason.fact is not Fact.BREAKER]
    apart = [r for r in seen.row.verdict.reasons if r.code in ("groups", "some_groups") and r.fact is Fact.INTENT]
    fronts = tuple(_fronts(one.name, now)) if one.role != "seed" else ()
    known = partners(seen.row)
    return Case(
        one.name,
        one.role,
        Leading(seen.leader.leads(now), seen.leader.holder, seen.leader.stamp or None),
        _port(one),
        _names(one, [told for name, told in refused if not name]),
        _roster(seen, [told for name, told in refused if name]),
        _engine(one, now),
        one.intent,
        telling_standing.whose(one.intent_actor, one.intent_reason),
        one.intent_at or one.retired_at,
        next((reason.sentence for reason in apart), ""),
        any(reason.blocks for reason in apart),
        one.health,
        one.health_reason,
        one.debt_since,
        against[0].sentence if against else "",
        fronts,
        _shut(one, {front.name for front in fronts}, now),
        known.misfits,
        known.fitting,
        known.unsure,
    )


def _told(at: float, data: str) -> Told:
    said = msgspec.json.decode(data)
    return Told(said["what"], said["source"], said["sentence"], at)


def _port(one: InstanceRow) -> PortSeen:
    told = read(LISTENER, [one.name]) if one.own_port else []
    kind, at, data = told[0] if told else ("", None, "{}")
    said = msgspec.json.decode(data)
    # What was told of another port that it once had says nothing of this one.
    current = bool(told) and said.get("port") == one.own_port
    seen, prefill = one.observation, one.role == "prefill" and bool(one.observed_url)
    return PortSeen(
        own=one.own_port,
        failed=str(said.get("why")) if current and kind == "listener.failed" else None,
        told_at=at if current else None,
        observed=(seen.state if seen is not None else "unasked") if prefill else "",
        observed_sentence=seen.sentence if seen is not None and prefill else "",
        observed_at=(seen.answered_at or seen.since) if seen is not None and prefill else None,
        observed_url=one.observed_url if prefill else "",
        holder=one.engine.holder,
        held=one.engine.held,
        held_at=one.engine.held_at,
    )


def _names(one: InstanceRow, nameless: Sequence[Told]) -> Names:
    urls = [one.engine_url, one.observed_url]
    rows = read(NEIGHBOURS, [one.name, *urls, *urls])
    twins = [
        (name, engine if engine and engine == one.engine_url else watched)
        for name, engine, watched, _, _ in rows
        if (engine and engine == one.engine_url) or (watched and watched == one.observed_url)
    ]
    shares = not (one.own_port or one.host_alias or one.role == "decode" or one.is_observed)
    sharing = tuple(name for name, _, _, alike, _ in rows if alike) if shares else ()
    return Names(
        shares,
        sharing,
        nameless[0] if nameless else None,
        tuple(name for name, _ in twins),
        twins[0][1] if twins else "",
        rows[0][4] if sharing else 0,
    )


def _roster(seen: CloseUp, refusals: Sequence[Told]) -> Roster:
    one = seen.instance
    launch = one.current or one.candidate
    if launch is None:
        return Roster(gone=tuple(_gone(seen)), refusals=tuple(refusals))
    own = [rank for rank in seen.seats if rank.launch == launch.number and rank.left_at is None]
    return Roster(
        launch.number,
        launch.registered,
        launch.expected,
        launch.completed_at is not None,
        tuple(slot_name(slot, launch.topology) for slot in launch.missing),
        tuple(_gone(seen, launch.number)) if not launch.full else (),
        tuple(refusals),
        tuple(
            Seated(rank.name, rank.ip, rank.address, rank.contact, rank.verified, "unprobed" in rank.flags)
            for rank in own
        ),
        max((rank.seen_at for rank in own), default=launch.opened_at),
    )


def _gone(seen: CloseUp, launch: int | None = None) -> Iterator[Gone]:
    left = [rank for rank in seen.gone if launch is None or rank.launch == launch]
    for rank in sorted(left, key=lambda rank: -(rank.left_at or 0.0)):
        yield Gone(rank.name, rank.address, rank.left_reason, rank.left_at or 0.0)


def _engine(one: InstanceRow, now: float) -> EngineSeen | None:
    at = one.engine
    if not at.at:
        return None
    return EngineSeen(at.at, State(at.state), at.sentence, at.asked_at, at.is_old(now), dict(at.load), at.load_at)


def _fronts(name: str, now: float) -> Iterator[Front]:
    for router, state, problem, checked_at, breakers_at, present, sentence, healthy in read(ROUTERS, [name]):
        away = state == Router.State.AWAY
        yield Front(
            f"router:{router}",
            away,
            checked_at is not None or away,
            checked_at,
            problem if away else sentence,
            bool(present),
            bool(healthy) if present and healthy is not None else None,
            breakers_at is not None and now - breakers_at <= ROUTER_LEASE_SECONDS,
        )
    for row in Gateway.objects.using(READER).filter(left_at=None).order_by("name")[:FRONTS]:
        late = now - row.seen_at > row.lease_seconds
        yield Front(row.name, late, True, row.seen_at, "it is silent for longer than its lease" if late else "")


def _shut(one: InstanceRow, fronts: set[str], now: float) -> tuple[Shut, ...]:
    return tuple(
        Shut(row.gateway, row.state, row.reason, row.group, row.since, row.heard_at, row.is_old(now))
        for row in one.open_breakers
        if row.gateway in fronts
    )
