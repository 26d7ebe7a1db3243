"""The fleet as JSON: from the tables as of one moment, or as it was, from the ledger. Both are what readers follow to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from django.db import connections

from controlplane.databases import READER
from controlplane.domain import fleetstate
from controlplane.domain.errors import Refused
from controlplane.domain.fleetstate import State, scope
from controlplane.ledger.tail import Cursor, EventRow, head
from controlplane.models import Event

from . import kept
from .fleet import snapshot
from .standing import scope as group_scope

MOST_REPLAYED = 200_000
PIECE = 2000

INSTANCES = """
SELECT i.id, i.name, i.role, i.intent, i.own_port, i.host_alias, i.engine_url, i.observed_url,
 i.observed_engine_info_url, i.version, i.debt_since, i.debt_hold, COALESCE(h.state, 'unknown'), COALESCE(h.why, '')
FROM controlplane_instance i LEFT JOIN controlplane_enginehealth h ON h.instance_id = i.id{where} ORDER BY i.name"""
GROUPS = """
SELECT i.name, x."group", x.intent FROM controlplane_groupintent x JOIN controlplane_instance i ON i.id = x.instance_id{where}
ORDER BY i.name, x."group\""""
DRAINS = """
SELECT i.name, x."group", x.id, x.progress, x.blockers, x.launch, x.deadline_at, x.min_ready
FROM controlplane_drain x JOIN controlplane_instance i ON i.id = x.instance_id{where} AND x.ended_at IS NULL"""
BREAKERS = """
SELECT i.name, x.gateway, x."group", x.state FROM controlplane_breaker x JOIN controlplane_instance i ON i.name = x.instance
LEFT JOIN controlplane_gateway g ON g.name = x.gateway{where} AND x.state <> 'closed' AND g.left_at IS NULL"""
LAUNCHES = """
SELECT i.name, x.number, x.state, x.token, x.dp, x.cp, x.tp, x.pp, x.facts, x.opened_at, x.completed_at, x.unchecked, x.claims
FROM controlplane_launch x JOIN controlplane_instance i ON i.id = x.instance_id{where} AND x.ended_at IS NULL"""
RANKS = """
SELECT i.name, x.number, r.dp, r.cp, r.tp, r.pp, r.ip, r.port, r.http_port, r.first_at, r.flags, r.contact, r.greeted, r.adopted
FROM controlplane_launch x JOIN controlplane_instance i ON i.id = x.instance_id
JOIN controlplane_rank r ON r.instance_id = x.instance_id AND r.launch = x.number{where}
AND x.ended_at IS NULL AND r.left_at IS NULL"""
ENGINES = """
SELECT i.name, x.rank, x.state, x.session, x.epoch, x.digest, x.tensors, x.total_bytes, x.old_style
FROM controlplane_engineinfo x JOIN controlplane_instance i ON i.id = x.instance_id{where} AND x.state <> 'retired'"""
LATE_WORKERS = """
SELECT i.name, x.worker, x.slots, x.late_since FROM controlplane_workerlease x
JOIN controlplane_instance i ON i.id = x.instance_id{where} AND x.late_since IS NOT NULL"""
GATEWAYS = "SELECT name, url FROM controlplane_gateway WHERE left_at IS NULL ORDER BY name"
ROUTERS = """
SELECT r.name, r.url, m.instance FROM controlplane_router r
LEFT JOIN controlplane_routermember m ON m.router_id = r.id AND m.wanted ORDER BY r.name, m.instance"""
OF_INSTANCES = (INSTANCES, GROUPS, DRAINS, BREAKERS, LAUNCHES, RANKS, ENGINES, LATE_WORKERS)
KINDS_OF_ENGINE = {"live": "live", "conflict": "conflicts"}


def fleet_state(instance: str | None = None) -> tuple[Cursor, State]:
    """All instances, or the one named (none when nobody is named so), and the revision from which events go on."""
    with snapshot():
        at = head()
        reading = _Reading(instance)
    # Put together when the transaction is over: PostgreSQL ends one that is idle for long.
    return at, reading.state()


def as_of(revision: int, instance: str | None = None, *, most: int | None = None) -> State:
    """The state right after this revision, told by the ledger from the last stored state before it, in at most `most`
    events.

    Raises Refused: malformed for a revision that is not yet, cursor_gone when what was then is not kept any more, too_large
    when it would take too long.
    """
    newest = head().revision
    if not 0 <= revision <= newest:
        raise Refused(f"revision {revision} does not exist: the ledger is at {newest}", code="malformed")
    base, state = kept.beginning(revision, instance)
    state = fleetstate.follow(state, _events_between(base, revision, instance, most or MOST_REPLAYED))
    # Old events may have gone meanwhile, from the beginning on: then some of these were missing.
    kept.check_kept(base, revision)
    return state


def revision_at(at: float) -> int:
    """The last revision that was written at this moment (epoch seconds) or before; 0 when none that is kept was."""
    return kept.revision_at(at)


def revision_then(at: float) -> int:
    """The same, for whoever wants to know how it was then. Raises Refused (cursor_gone) when that is not kept any more."""
    kept.check_moment(at)
    return kept.revision_at(at)


def state_at(at: float, instance: str | None = None) -> tuple[int, State]:
    """The state at a moment (epoch seconds), and its revision. Raises Refused as as_of() does."""
    revision = revision_then(at)
    return revision, as_of(revision, instance)


def _events_between(base: int, revision: int, instance: str | None, most: int) -> Iterator[EventRow]:
    events = Event.objects.using(READER).filter(revision__gt=base, revision__lte=revision)
    count = revision - base
    if instance is not None:
        # What gateways and routers do is about nobody in particular, and about everybody.
        events = events.filter(instance__in=(instance, ""))
        count = events.count()
    if count > most:
        raise Refused(
            f"telling this takes {count} events, and at most {most} are read; ask for one instance, or for a time"
            " nearer to the beginning",
            code="too_large",
        )
    found, last = events.order_by("revision").values_list("revision", "at", "kind", "instance", "data"), base
    while True:
        piece = list(found.filter(revision__gt=last)[:PIECE])
        for last, at, kind, name, data in piece:
            yield EventRow(last, at, kind, name, "", "", msgspec.json.decode(data))
        if len(piece) < PIECE:
            return


class _Reading:
    """The tables, one query each, and what they come to."""

    def __init__(self, only: str | None) -> None:
        where, values = (" WHERE 1 = 1", []) if only is None else (" WHERE i.name = %s", [only])
        self._found = {sql: _fetch(sql.format(where=where), values) for sql in OF_INSTANCES}
        self._found |= {sql: _fetch(sql, []) for sql in (GATEWAYS, ROUTERS)}
        self.instances: dict[str, State] = {}

    def state(self) -> State:
        for row in self._found[INSTANCES]:
            self._instance(*row)
        for name, group, intent in self._found[GROUPS]:
            self.instances[name]["groups"][scope(group)] = intent
        for name, group, *drain in self._found[DRAINS]:
            self.instances[name]["drains"][scope(group_scope(group))] = _drain(*drain)
        for name, gateway, group, state in self._found[BREAKERS]:
            own = self.instances[name]["breakers"].setdefault(gateway, {})
            own[scope(group_scope(group))] = state
        self._registration()
        for name, rank, state, *engine in self._found[ENGINES]:
            self.instances[name]["engines"][KINDS_OF_ENGINE[state]][str(rank)] = _engine(*engine)
        for name, worker, slots, since in self._found[LATE_WORKERS]:
            held = [[int(axis) for axis in slot.split(".")] for slot in slots.split()]
            self.instances[name]["late_workers"][worker] = {"slots": held, "since": since}
        return {"instances": self.instances, "gateways": self._gateways(), "routers": self._routers()}

    def _instance(
        self,
        id_: int,
        name: str,
        role: str,
        intent: str,
        own_port: int | None,
        alias: str | None,
        engine_url: str,
        observed_url: str,
        observed_engine_info_url: str,
        version: int,
        debt_since: float | None,
        debt_hold: bool,
        engine: str,
        why: str,
    ) -> None:
        self.instances[name] = {
            **fleetstate.newcomer(),
            "role": role,
            "intent": intent,
            "own_port": own_port,
            "host_alias": alias,
            "engine_url": engine_url,
            "observed_url": observed_url,
            "observed_engine_info_url": observed_engine_info_url,
            "version": version,
            "engine": {"state": engine, "why": why},
            "debt": {"since": debt_since, "hold": bool(debt_hold)} if debt_since is not None else None,
        }

    def _registration(self) -> None:
        held = {name for name, instance in self.instances.items() if instance["debt"] and instance["debt"]["hold"]}
        launches: dict[tuple[str, int], State] = {}
        for name, number, *values in self._found[LAUNCHES]:
            launch = launches[name, number] = _launch(number, *values)
            self.instances[name]["launches"][str(number)] = launch
        for name, number, dp, cp, tp, pp, *row in self._found[RANKS]:
            launches[name, number]["rows"][f"{dp}.{cp}.{tp}.{pp}"] = _rank(*row)
        for (name, _), launch in launches.items():
            dp, cp, tp, pp = launch["topology"]
            # Whole again but not yet proven: the round is owed, as the bootstrap process would say of it.
            full = len(launch["rows"]) == dp * cp * tp * pp
            launch["complete"] = launch["served"] and full and name not in held

    def _gateways(self) -> State:
        return {name: {"url": url} for name, url in self._found[GATEWAYS]}

    def _routers(self) -> State:
        routers: dict[str, State] = {}
        for name, url, instance in self._found[ROUTERS]:
            router = routers.setdefault(name, {"url": url, "instances": []})
            router["instances"] += [instance] if instance is not None else []
        return {name: {**router, "instances": sorted(router["instances"])} for name, router in routers.items()}


def _drain(
    id_: int,
    progress: str,
    blockers: str,
    launch: int | None,
    deadline_at: float | None,
    min_ready: int,
) -> State:
    return {
        "drain": id_,
        "progress": progress,
        "blockers": msgspec.json.decode(blockers),
        "launch": launch,
        "deadline_at": deadline_at,
        "min_ready": min_ready,
    }


def _launch(number: int, role: str, token: str | None, dp: int, cp: int, tp: int, pp: int, *more: Any) -> State:
    facts, opened_at, completed_at, unchecked, claims = more
    return {
        "number": number,
        "role": role,
        "token": token,
        "topology": [dp, cp, tp, pp],
        "facts": msgspec.json.decode(facts),
        "opened_at": opened_at,
        "complete": False,
        "served": completed_at is not None and role == "current",
        "unchecked": bool(unchecked),
        "rows": {},
        "claims": _claims(claims),
    }


def _claims(text: str) -> State:
    found: list[Mapping[str, Any]] = msgspec.json.decode(text) if text else []
    return {
        ".".join(map(str, claim["slot"])): {
            "ip": claim["ip"],
            "port": claim["port"],
            "http_port": claim["http_port"],
            "first_at": claim["first_at"],
            "flags": claim["flags"],
        }
        for claim in found
    }


def _rank(ip: str, port: int, http_port: int | None, first_at: float, flags: str, *probed: Any) -> State:
    contact, greeted, adopted = probed
    return {
        "ip": ip,
        "port": port,
        "http_port": http_port,
        "first_at": first_at,
        "flags": flags.split(",") if flags else [],
        "contact": contact,
        "greeted": bool(greeted),
        "adopted": bool(adopted),
    }


def _engine(session: str, epoch: int, digest: str, tensors: int, total_bytes: int, old_style: bool) -> State:
    return {
        "session": session,
        "epoch": epoch,
        "digest": digest,
        "tensors": tensors,
        "total_bytes": total_bytes,
        "old_style": bool(old_style),
    }


def _fetch(sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connections[READER].cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())
