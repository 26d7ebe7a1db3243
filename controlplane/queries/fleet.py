"""The fleet as pages, API and commands read it: a constant number of SQL queries, whatever its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import msgspec
from django.conf import settings
from django.db import connections, transaction

from controlplane.databases import READER
from controlplane.domain import observing
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.models import Instance

from . import engine_health, standing
from .archived import ARCHIVED, REGISTERED
from .rows import ClaimRow, FleetRow, InstanceRow, LaunchRow, LeaderRow, ObservationRow, RankRow

LATELY_SECONDS = 900.0
"""For how long a rank that left is still spoken of."""

NAMED = 16
"""How many missing, flagged or departed ranks are named for each launch or instance."""

HEAD = """
SELECT h.ledger_id, h.revision, l.holder, l.token, l.expires_at
FROM controlplane_ledgerhead h, controlplane_lease l WHERE h.id = 1 AND l.name = 'bootstrap'"""
LAUNCH = """
SELECT l.instance_id, l.number, l.state, l.dp, l.cp, l.tp, l.pp, l.token, l.facts, l.opened_at, l.completed_at, l.unchecked,
 l.ended_at, l.ended_reason, l.claims FROM controlplane_launch l"""
OPEN = "l.ended_at IS NULL"
MEMBERS = """
FROM controlplane_launch l JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number
WHERE l.ended_at IS NULL AND r.left_at IS NULL"""
COUNTS = f"""
SELECT l.instance_id, l.number, COUNT(*), SUM(CASE WHEN r.flags <> '' THEN 1 ELSE 0 END) {MEMBERS}"""
# Counted once per launch and not once per rank: with 64,000 ranks that is 0.2 s instead of 8.
PRESENT = f"""
SELECT r.instance_id, r.launch, r.dp, r.cp, r.tp, r.pp FROM (
 SELECT l.instance_id, l.number, l.dp * l.cp * l.tp * l.pp AS size, COUNT(*) AS present {MEMBERS} {{more}}
 GROUP BY l.instance_id, l.number, l.dp, l.cp, l.tp, l.pp
) AS counted JOIN controlplane_rank r ON r.instance_id = counted.instance_id AND r.launch = counted.number
WHERE counted.present < counted.size AND r.left_at IS NULL"""
RANK = """
r.instance_id, r.launch, l.dp AS dps, l.cp AS cps, l.tp AS tps, l.pp AS pps, r.dp, r.cp, r.tp, r.pp, r.ip, r.port,
 r.http_port, r.contact, r.greeted, r.verified_term, r.flags, r.first_at, r.seen_at, r.left_at, r.left_reason"""
RANKS = f"""
SELECT {RANK} FROM controlplane_launch l
JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number"""
FLAGGED = f"""
SELECT * FROM (SELECT {RANK}, ROW_NUMBER() OVER (
 PARTITION BY r.instance_id ORDER BY r.launch DESC, r.dp, r.cp, r.tp, r.pp) AS place {MEMBERS} AND r.flags <> '' {{more}}
) AS ranked WHERE place <= {NAMED} ORDER BY instance_id, place"""
LEFT = f"""
SELECT * FROM (SELECT {RANK}, ROW_NUMBER() OVER (
 PARTITION BY r.instance_id ORDER BY r.left_at DESC, r.dp, r.cp, r.tp, r.pp) AS place
 FROM controlplane_launch l JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number
 WHERE (l.ended_at IS NULL OR l.ended_at > %s) AND r.left_at > %s {{more}}
) AS ranked WHERE place <= {NAMED} ORDER BY instance_id, place"""
# From the instances that are in debt, which are few, to the newest such event of each: the ledger is long.
REASONS = """
SELECT i.name, e.data FROM controlplane_instance i JOIN controlplane_event e ON e.revision = (
 SELECT t.revision FROM controlplane_event t WHERE t.instance = i.name AND t.kind = 'health.turned'
 ORDER BY t.revision DESC LIMIT 1
) WHERE i.debt_since IS NOT NULL{more}"""
SESSIONS = """
SELECT instance_id, SUM(CASE WHEN state = 'live' THEN 1 ELSE 0 END), SUM(CASE WHEN state = 'conflict' THEN 1 ELSE 0 END)
FROM controlplane_engineinfo WHERE state <> 'retired'{more} GROUP BY instance_id"""

Key = tuple[int, int]


def fleet(*, now: float, name: str | None = None, flagged: bool = True) -> FleetRow:
    """Every instance by name, or only the one that is named, all as of one moment.

    Without `flagged` no flagged rank is named, they are only counted: where all ranks of a large fleet are flagged, to
    find the first of each instance takes as long as all the rest.
    """
    with snapshot():
        ledger_id, revision, leader = _head()
        found = Instance.objects.using(READER).order_by("name")
        if name is not None:
            found = found.filter(name=name)
        known = list(found)
        only = known[0].pk if name is not None and known else (-1 if name is not None else None)
        parts = _Parts(only, now=now, term=leader.token, flagged=flagged)
        beside = standing.read((only or 0, name) if name is not None else None)
    return FleetRow(
        ledger_id, revision, leader, tuple(parts.instance(row, beside.of(row.pk, row.name)) for row in known)
    )


def instance(name: str, *, now: float) -> tuple[InstanceRow, FleetRow]:
    """One instance, and the fleet row it came in. Raises Refused (not_found)."""
    found = fleet(now=now, name=name)
    if not found.instances:
        raise Refused(f"no instance is named {name}", code="not_found")
    return found.instances[0], found


def ranks(instance_id: int, *, term: int) -> tuple[RankRow, ...]:
    """Whoever counts in the open launches of an instance, in slot order."""
    sql = f"""{RANKS} WHERE l.instance_id = %s AND l.ended_at IS NULL AND r.left_at IS NULL
        ORDER BY r.launch, r.dp, r.cp, r.tp, r.pp"""
    return tuple(_rank(values, term) for values in _read(sql, [instance_id]))


def seats(instance_id: int, *, term: int, slots: Sequence[Slot] = ()) -> tuple[RankRow, ...]:
    """Whoever sits in an open launch of an instance, or sat there last; in all slots, or only in these."""
    marks = ", ".join(["(%s, %s, %s, %s)"] * len(slots))
    only = f" AND (r.dp, r.cp, r.tp, r.pp) IN (VALUES {marks})" if slots else ""
    sql = f"{RANKS} WHERE l.instance_id = %s AND l.ended_at IS NULL{only} ORDER BY r.launch, r.dp, r.cp, r.tp, r.pp"
    return tuple(_rank(values, term) for values in _read(sql, [instance_id, *chain.from_iterable(slots)]))


def departed(instance_id: int, launches: list[int], *, term: int) -> tuple[RankRow, ...]:
    """Whoever left one of these launches and was not replaced in it, however long ago."""
    if not launches:
        return ()
    marks = ", ".join(["%s"] * len(launches))
    sql = f"""{RANKS} WHERE l.instance_id = %s AND l.number IN ({marks}) AND r.left_at IS NOT NULL
        ORDER BY r.left_at DESC, r.dp, r.cp, r.tp, r.pp"""
    return tuple(_rank(values, term) for values in _read(sql, [instance_id, *launches]))


def launches(instance_id: int, *, before: int | None = None, limit: int = 20) -> tuple[LaunchRow, ...]:
    """The launches of an instance, the newest first, ended ones included; only those of lower numbers than `before`."""
    one = [instance_id, *([before] if before is not None else [])]
    own = f" WHERE l.instance_id = %s{' AND l.number < %s' if before is not None else ''}"
    # Of each half the newest only: an archive may be long.
    halves = [f"SELECT * FROM ({half}{own} ORDER BY l.number DESC LIMIT %s) AS half" for half in (LAUNCH, ARCHIVED)]
    sql = f"{halves[0]} UNION ALL {halves[1]} ORDER BY 2 DESC LIMIT %s"
    with snapshot():
        found = _read(sql, [*one, limit, *one, limit, limit])
        shown = [instance_id, found[-1][1], found[0][1]] if found else [instance_id, 0, 0]
        registered = dict(_read(REGISTERED, [*shown, *shown]))
        return tuple(_launch(values, registered.get(values[1], 0), ()) for values in found)


@contextmanager
def snapshot() -> Iterator[None]:
    """Everything read inside is of one moment: a deferred transaction on SQLite, REPEATABLE READ on PostgreSQL."""
    # Without savepoints, so that one snapshot may stand inside another.
    with transaction.atomic(using=READER, savepoint=False):
        yield


class _Parts:
    """What belongs to the instances, by their ids; `only` narrows every query to one of them."""

    def __init__(self, only: int | None, *, now: float, term: int, flagged: bool) -> None:
        self.term = term
        own = f" AND l.instance_id = {int(only)}" if only is not None else ""
        owing = f" AND i.id = {int(only)}" if only is not None else ""
        published = f" AND instance_id = {int(only)}" if only is not None else ""
        since = now - LATELY_SECONDS
        self.counts: dict[Key, int] = {}
        self.flag_counts: dict[int, int] = defaultdict(int)
        for id_, number, count, with_flags in _read(f"{COUNTS}{own} GROUP BY l.instance_id, l.number"):
            self.counts[id_, number] = int(count)
            self.flag_counts[id_] += int(with_flags)
        self.present: dict[Key, dict[Slot, bool]] = defaultdict(dict)
        for id_, number, *slot in _read(PRESENT.format(more=own)):
            self.present[id_, number][Slot(*slot)] = True
        self.launches: dict[int, dict[str, LaunchRow]] = defaultdict(dict)
        for values in _read(f"{LAUNCH} WHERE {OPEN}{own}"):
            launch = self._open_launch(values)
            self.launches[values[0]][launch.state] = launch
        self.flagged = self._ranks(FLAGGED.format(more=own), []) if flagged else defaultdict(list)
        self.left = self._ranks(LEFT.format(more=own), [since, since])
        turned = _read(REASONS.format(more=owing))
        self.reasons = {name: str(msgspec.json.decode(data)["reason"]) for name, data in turned}
        self.engines = engine_health.stored(only)
        sessions = _read(SESSIONS.format(more=published))
        self.sessions = {id_: (int(live), int(conflicts)) for id_, live, conflicts in sessions}

    def instance(self, row: Instance, beside: standing.Standing) -> InstanceRow:
        live, conflicts = self.sessions.get(row.pk, (0, 0))
        return InstanceRow(
            id=row.pk,
            name=row.name,
            role=str(row.role),
            intent=str(row.intent),
            own_port=row.own_port,
            host_alias=row.host_alias,
            created_at=row.created_at,
            retired_at=row.retired_at,
            current=self.launches[row.pk].get("current"),
            candidate=self.launches[row.pk].get("candidate"),
            debt_since=row.debt_since,
            debt_hold=row.debt_hold,
            health_reason=self.reasons.get(row.name, ""),
            flagged=tuple(self.flagged[row.pk]),
            flagged_count=self.flag_counts[row.pk],
            left=tuple(self.left[row.pk]),
            sessions=live,
            conflicts=conflicts,
            version=row.version,
            engine_url=row.engine_url,
            observed_url=row.observed_url,
            observed_engine_info_url=row.observed_engine_info_url,
            observation=_observation(row),
            engine=engine_health.row_of(row, self.engines.get(row.pk)),
            probe_seconds=row.probe_seconds,
            fail_after=row.fail_after,
            pass_after=row.pass_after,
            intent_actor=row.intent_actor,
            intent_reason=row.intent_reason,
            intent_at=row.intent_at,
            groups=beside.groups,
            drains=beside.drains,
            breakers=beside.breakers,
        )

    def _open_launch(self, values: tuple[Any, ...]) -> LaunchRow:
        key = (values[0], values[1])
        registered = self.counts.get(key, 0)
        topology = Topology(*values[3:7])
        missing = topology.missing(self.present[key], NAMED) if registered < topology.size else []
        return _launch(values, registered, tuple(missing))

    def _ranks(self, sql: str, values: list[Any]) -> dict[int, list[RankRow]]:
        found: dict[int, list[RankRow]] = defaultdict(list)
        for row in _read(sql, values):
            found[row[0]].append(_rank(row[:-1], self.term))
        return found


def _observation(row: Instance) -> ObservationRow | None:
    """None while nothing was heard at the address that is observed now."""
    at = row.observed_url or row.observed_engine_info_url
    heard = observing.restored(row.observation) if at else None
    if heard is None or heard.at != at:
        return None
    said = observing.sentence(heard)
    return ObservationRow(at, heard.state.value, said, heard.since, heard.answered_at, heard.count, heard.said)


def _head() -> tuple[str, int, LeaderRow]:
    ledger_id, revision, holder, token, stamp = _read(HEAD)[0]
    return ledger_id, revision, LeaderRow(holder, token, stamp, settings.PDCP_LEASE_SECONDS)


def _launch(values: tuple[Any, ...], registered: int, missing: tuple[Slot, ...]) -> LaunchRow:
    _, number, state, dp, cp, tp, pp, token, facts, opened_at, completed_at, unchecked, ended_at, reason, claims = (
        values
    )
    claimed = msgspec.json.decode(claims) if claims else []
    return LaunchRow(
        number,
        state,
        Topology(dp, cp, tp, pp),
        token,
        msgspec.json.decode(facts),
        opened_at,
        completed_at,
        bool(unchecked),
        ended_at,
        reason,
        registered,
        missing,
        tuple(ClaimRow(Slot(*claim["slot"]), claim["ip"], claim["port"]) for claim in claimed),
    )


def _rank(values: tuple[Any, ...], term: int) -> RankRow:
    _, launch, *numbers = values[:10]
    ip, port, http_port, contact, greeted, verified, flags, first_at, seen_at, left_at, left_reason = values[10:21]
    return RankRow(
        launch,
        Topology(*numbers[:4]),
        Slot(*numbers[4:]),
        ip,
        port,
        http_port,
        contact,
        bool(greeted),
        verified == term,
        tuple(flags.split(",")) if flags else (),
        first_at,
        seen_at,
        left_at,
        left_reason,
    )


def _read(sql: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections[READER].cursor() as cursor:
        cursor.execute(sql, values or [])
        return list(cursor.fetchall())
