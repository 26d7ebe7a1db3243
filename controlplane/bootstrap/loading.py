"""From tables to memory at start: instances with their open launches, ranks and sessions; then rooms, behind them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
from django.db import OperationalError

from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.contact import Contact
from controlplane.domain.directory import FENCE_SECONDS, Debt, Directory, Fence, Registration
from controlplane.domain.engines import EngineEntry, EngineTable
from controlplane.domain.health import CLOSED_COUNTS, Pollers
from controlplane.domain.launch import Launch, Row
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.ledger.cursor import cursor
from controlplane.probes import mooncake
from controlplane.probes.networks import ProbePolicy

from .fleet import Instance, Observed

INSTANCES = """
SELECT id, name, role, intent, own_port, host_alias, next_launch, debt_since, debt_hold, late, observed_url,
 observed_engine_info_url, engine_url, engine_key
FROM controlplane_instance"""
DRAINING = """SELECT instance_id, "group" FROM controlplane_groupintent WHERE intent = 'draining'"""
REREGISTER = """
SELECT i.id, MAX(r.made_at) FROM controlplane_request r JOIN controlplane_instance i ON i.name = r.instance
WHERE r.kind = 'reregister' AND r.granted AND r.made_at > %s GROUP BY i.id"""
REREGISTER_SECONDS = 600.0
"""For how long after a restart of ours workers are still told to register again: the longest heartbeat lease."""

LATE_COUNTS = 3 * FENCE_SECONDS
"""For how long after a promotion a PUT that came late is remembered over a restart of ours."""

LAUNCHES = """
SELECT instance_id, number, state, token, dp, cp, tp, pp, facts, opened_at, completed_at, unchecked, claims
FROM controlplane_launch WHERE ended_at IS NULL ORDER BY instance_id, number"""
RANKS = """
SELECT r.instance_id, r.launch, r.dp, r.cp, r.tp, r.pp, r.ip, r.port, r.http_port, r.first_at, r.seen_at, r.again_at,
 r.greeted, r.adopted, r.flags, r.contact
FROM controlplane_rank r JOIN controlplane_launch l ON l.instance_id = r.instance_id AND l.number = r.launch
WHERE r.left_at IS NULL AND l.ended_at IS NULL"""
ENGINES = """
SELECT instance_id, rank, epoch, session, digest, tensors, total_bytes, old_style, state, at, greeted, contact
FROM controlplane_engineinfo WHERE state <> 'retired'"""
EPOCHS = "SELECT instance_id, rank, MAX(epoch) FROM controlplane_engineinfo GROUP BY instance_id, rank"
ROOMS = """
SELECT id, instance_id, room, dp, expires_ms FROM controlplane_roombinding
WHERE id < %s AND expires_ms > %s ORDER BY id DESC LIMIT %s"""
# Behind the living ones, which expire later: the head of the journal.
ROOMS_OVER = """
SELECT instance_id, room, dp, expires_ms FROM controlplane_roombinding
WHERE id < COALESCE((SELECT id FROM controlplane_roombinding WHERE expires_ms > %s ORDER BY id LIMIT 1), %s)
 AND expires_ms > %s ORDER BY id DESC LIMIT %s"""
BODY = "SELECT compressed FROM controlplane_enginebody WHERE digest = %s"
HEAD = "SELECT revision FROM controlplane_ledgerhead WHERE id = 1"


def rows(sql: str, values: tuple[Any, ...] = (), alias: str = FACTS) -> list[tuple[Any, ...]]:
    for attempt in (1, 2):
        try:
            with cursor(alias) as c:
                c.execute(sql, values)
                return list(c.fetchall())
        except OperationalError:
            # A connection that died while nobody used it is found out by the first who does.
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


def load_instances(policy: ProbePolicy) -> tuple[list[Instance], int]:
    """Every instance as it was acknowledged, and the ledger's revision they belong to.

    The last verdicts stand, but unproven (`probed_at` is None): what is restored is verified when it answers again.
    A session that `policy` lets nobody ask is not waited for: who publishes its rank anew takes it at once.
    """
    now = time.time()
    (revision,) = rows(HEAD)[0]
    instances: dict[int, Instance] = {}
    debts: dict[int, tuple[int, Debt | None, Fence | None]] = {}
    for id_, name, role, intent, own_port, alias, next_launch, since, hold, late, *urls in rows(INSTANCES):
        debts[id_] = (next_launch, Debt(since, bool(hold)) if since is not None else None, _fence(late, now))
        pollers = Pollers(unknown_until=time.monotonic() + CLOSED_COUNTS)
        instances[id_] = Instance(id_, name, role, intent, own_port, alias, pollers=pollers, observed=Observed(*urls))
    ranks = _ranks()
    launches: dict[int, dict[str, Launch]] = defaultdict(dict)
    for values in rows(LAUNCHES):
        debt = debts[values[0]][1]
        launch = _launch(values, ranks.get((values[0], values[1]), {}), now, held=debt is not None and debt.hold)
        launches[values[0]][values[2]] = launch
    engines = _engines(policy)
    for id_, instance in instances.items():
        own = launches.get(id_, {})
        next_launch, debt, fence = debts[id_]
        instance.directory = Directory(
            instance.name, own.get("current"), own.get("candidate"), debt, fence, next_launch
        )
        instance.engines = engines.get(id_, EngineTable())
    for id_, group in rows(DRAINING):
        if id_ in instances:
            instances[id_].draining |= {group}
    for id_, made_at in rows(REREGISTER, (now - REREGISTER_SECONDS,)):
        if id_ in instances:
            instances[id_].reregister_before = made_at
    return list(instances.values()), int(revision)


class _Late(msgspec.Struct):
    at: float
    puts: list[Registration]


def _fence(text: str, now: float) -> Fence | None:
    """What is left of the fence: the PUTs that came late and whose addresses nobody has asked since."""
    kept = msgspec.json.decode(text, type=_Late) if text else None
    # Long ago: whoever answers there now is somebody else.
    if kept is None or now - kept.at > LATE_COUNTS:
        return None
    return Fence(
        max(now, kept.at), {put.address: Contact.REFUSED for put in kept.puts}, {put.address: put for put in kept.puts}
    )


def _ranks() -> dict[tuple[int, int], dict[Slot, Row]]:
    found: dict[tuple[int, int], dict[Slot, Row]] = defaultdict(dict)
    for instance, launch, dp, cp, tp, pp, ip, port, http, first, seen, again, greeted, adopted, flags, contact in rows(
        RANKS
    ):
        slot = Slot(dp, cp, tp, pp)
        found[instance, launch][slot] = Row(
            slot,
            ip,
            port,
            http,
            first,
            seen,
            again,
            Contact(contact),
            bool(greeted),
            None,
            None,
            tuple(flags.split(",")) if flags else (),
            bool(adopted),
        )
    return found


def _launch(values: tuple[Any, ...], members: dict[Slot, Row], now: float, *, held: bool) -> Launch:
    _, number, state, token, dp, cp, tp, pp, facts, opened_at, completed_at, unchecked, claims = values
    topology = Topology(dp, cp, tp, pp)
    full = len(members) == topology.size
    served = completed_at is not None and state == "current"
    return Launch(
        number,
        token,
        topology,
        SharedFacts(**msgspec.json.decode(facts)),
        members,
        opened_at,
        max((row.seen_at for row in members.values()), default=opened_at),
        # A round that was under way is owed again; a finished one stands.
        full_at=(now if held or not completed_at else completed_at) if full else None,
        # Whole again but not yet proven when we went away: the round is owed.
        complete=served and full and not held,
        served=served,
        unchecked=bool(unchecked),
        claims=_claims(claims),
        at={row.address: slot for slot, row in members.items()},
    )


def _claims(text: str) -> dict[Slot, Row]:
    if not text:
        return {}
    return {row.slot: row for row in msgspec.json.decode(text, type=list[Row])}


def _engines(policy: ProbePolicy) -> dict[int, EngineTable]:
    tables: dict[int, EngineTable] = {}
    for instance, rank, epoch, session, digest, tensors, total, old_style, state, at, greeted, contact in rows(ENGINES):
        entry = EngineEntry(rank, session, digest, tensors, total, at, bool(old_style), epoch, greeted=bool(greeted))
        probeable = mooncake.may_ask(policy, session)
        entry = replace(entry, answered=contact == Contact.UP, probeable=probeable)
        table = tables.get(instance, EngineTable())
        if state == "live":
            tables[instance] = replace(table, live={**table.live, rank: entry})
        else:
            tables[instance] = replace(table, conflicts={**table.conflicts, rank: entry})
    for instance, rank, epoch in rows(EPOCHS):
        table = tables.get(instance, EngineTable())
        tables[instance] = replace(table, epochs={**table.epochs, rank: epoch})
    return tables


def load_rooms(chunk: int = 20_000) -> Iterator[list[tuple[int, int, int, int]]]:
    """Live bindings, newest first, in chunks of (instance, room, dp, expires_ms). The first of a room is what counts."""
    now_ms = round(time.time() * 1000)
    before = 2**63 - 1
    while True:
        found = rows(ROOMS, (before, now_ms, chunk), TRAFFIC)
        if not found:
            return
        before = found[-1][0]
        yield [(instance, room, dp, expires) for _, instance, room, dp, expires in found]


def load_rooms_over(since_ms: int, limit: int) -> list[tuple[Any, ...]]:
    """Bindings that expired since then (ms since the epoch), newest first, as load_rooms() has them."""
    return rows(ROOMS_OVER, (round(time.time() * 1000), 2**63 - 1, since_ms, limit), TRAFFIC)


def load_engine_body(digest: str) -> bytes | None:
    found = rows(BODY, (digest,))
    return bytes(found[0][0]) if found else None
