"""Who can be sent work, and why not: the four facts of instances and their DP groups, put before domain.routable."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.db import connections

from controlplane.databases import READER
from controlplane.domain import routable as domain
from controlplane.domain.engine_health import State
from controlplane.domain.errors import Refused
from controlplane.domain.routable import Breaker, Engine, Health, Registration, Subject, Verdict, Wish

from . import fleet
from .choosers import Choosers
from .rows import FleetRow, InstanceRow, LeaderRow
from .standing import scope

# Grouped as both primary keys are ordered, launches first: otherwise SQLite sorts every rank of the fleet.
GROUPS = """
SELECT l.instance_id, r.dp, COUNT(*), SUM(CASE WHEN r.contact = 'up' THEN 1 ELSE 0 END),
 SUM(CASE WHEN r.flags LIKE '%%unprobed%%' THEN 0 ELSE 1 END),
 SUM(CASE WHEN r.verified_term = %s AND r.flags NOT LIKE '%%unprobed%%' THEN 1 ELSE 0 END)
FROM controlplane_launch l JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number
WHERE l.ended_at IS NULL AND l.state = 'current' AND r.left_at IS NULL{more}
GROUP BY l.instance_id, l.number, r.dp"""


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """One DP group of an instance: how many of its ranks are registered, and whether it can be sent work.

    `unanswered`: ranks that can be probed, and whose last probe was not answered as a rank answers.
    """

    group: int
    registered: int
    size: int
    answering: int
    intent: str
    verdict: Verdict
    unanswered: int = 0


@dataclass(frozen=True, slots=True)
class RoutableRow:
    """One instance with its DP groups. A decode that never registered has none that we know of."""

    instance: InstanceRow
    verdict: Verdict
    groups: tuple[GroupVerdict, ...]

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def role(self) -> str:
        return self.instance.role

    @property
    def launch(self) -> int | None:
        return self.instance.current.number if self.instance.current else None

    @property
    def routable(self) -> bool:
        return self.verdict.routable

    def of(self, group: int | None) -> Verdict:
        """The verdict of the instance (None) or of one DP group. Raises Refused (not_found)."""
        if group is None:
            return self.verdict
        found = next((row.verdict for row in self.groups if row.group == group), None)
        if found is None:
            raise Refused(f"{self.name} has no DP group {group} that is known here", code="not_found")
        return found


@dataclass(frozen=True, slots=True)
class Counts:
    """What can be sent work: instances, DP groups (one for an instance of which none is known), registered ranks."""

    instances: int
    groups: int
    ranks: int


@dataclass(frozen=True, slots=True)
class _Group:
    registered: int
    answering: int
    probeable: int
    verified: int


def instances(
    *, now: float, name: str | None = None, gateway: str | None = None, without: tuple[str, int] | None = None
) -> tuple[RoutableRow, ...]:
    """Every instance, or the named one; through any gateway, or one. `without`: as if this group (or -1) were cordoned."""
    facts = _Facts.read(now, name, gateway)
    name, wishes = (without[0], (Wish("cordoned", scope(without[1])),)) if without is not None else (None, ())
    return tuple(facts.row(one, *(wishes if one.name == name else ())) for one in facts.fleet.instances)


@dataclass(frozen=True, slots=True)
class Weighed:
    """The whole fleet and the verdict on each of its instances, in the order of their names."""

    fleet: FleetRow
    rows: tuple[RoutableRow, ...]


def weigh(*, now: float) -> Weighed:
    facts = _Facts.read(now)
    return Weighed(facts.fleet, tuple(facts.row(one) for one in facts.fleet.instances))


def both(*, now: float, without: tuple[str, int]) -> tuple[tuple[RoutableRow, ...], tuple[RoutableRow, ...]]:
    """Every instance as it is, and as if this group (or -1) were cordoned: the fleet is read and weighed once."""
    return together(now=now, gone=(without,))


def lifted(name: str, *, group: int | None, now: float) -> tuple[RoutableRow, RoutableRow]:
    """One instance as it is, and as if this group (None: all of it) had not been taken out of use. Raises Refused."""
    facts = _Facts.read(now, name)
    if (one := facts.fleet.named(name)) is None:
        raise Refused(f"no instance is named {name}", code="not_found")
    return facts.row(one), facts.row(one, Wish("enabled", group))


def together(
    *, now: float, gone: Collection[tuple[str, int]]
) -> tuple[tuple[RoutableRow, ...], tuple[RoutableRow, ...]]:
    """As `both`, with all of these instances and groups cordoned at once."""
    facts = _Facts.read(now)
    wishes: dict[str, list[Wish]] = defaultdict(list)
    for name, group in gone:
        wishes[name].append(Wish("cordoned", scope(group)))
    rows = tuple(facts.row(one) for one in facts.fleet.instances)
    return rows, tuple(facts.row(row.instance, *wishes[row.name]) if row.name in wishes else row for row in rows)


def wholes(*, now: float) -> tuple[RoutableRow, ...]:
    """Every instance as a whole, without its DP groups: to weigh each of those takes several times as long."""
    facts = _Facts.read(now)
    return tuple(RoutableRow(one, domain.explain(facts.subject(one)), ()) for one in facts.fleet.instances)


def instance(name: str, *, now: float, gateway: str | None = None) -> RoutableRow:
    """One instance. Raises Refused (not_found)."""
    found = instances(now=now, name=name, gateway=gateway)
    if not found:
        raise Refused(f"no instance is named {name}", code="not_found")
    return found[0]


def standing(name: str, *, now: float) -> tuple[RoutableRow, FleetRow]:
    """One instance, and the fleet row it came in. Raises Refused (not_found)."""
    facts = _Facts.read(now, name)
    if not facts.fleet.instances:
        raise Refused(f"no instance is named {name}", code="not_found")
    return facts.row(facts.fleet.instances[0]), facts.fleet


def counts(role: str, *, now: float | None = None, without: tuple[str, int] | None = None) -> Counts:
    """How much of a role can be sent work, and with `without`, what would remain."""
    return count(instances(now=time.time() if now is None else now, without=without), role)


def pairs(*, now: float | None = None, without: tuple[str, int] | None = None) -> int:
    """Routable prefill instances times routable decode instances."""
    rows = instances(now=time.time() if now is None else now, without=without)
    return count(rows, "prefill").instances * count(rows, "decode").instances


def count(rows: Iterable[RoutableRow], role: str) -> Counts:
    here = [row for row in rows if row.role == role and row.routable]
    groups = [group for row in here for group in row.groups if group.verdict.routable]
    nameless = sum(not row.groups for row in here)
    return Counts(len(here), len(groups) + nameless, sum(group.registered for group in groups))


@dataclass(frozen=True, slots=True)
class _Facts:
    """All that is known of a fleet, or of one instance, as of one moment."""

    fleet: FleetRow
    groups: dict[int, dict[int, _Group]]
    choosers: Choosers
    now: float

    @staticmethod
    def read(now: float, name: str | None = None, gateway: str | None = None) -> _Facts:
        with fleet.snapshot():
            found = fleet.fleet(now=now, name=name, flagged=name is not None)
            only = found.instances[0].id if name is not None and found.instances else None
            return _Facts(found, _groups(found.leader.token, only), Choosers(gateway), now)

    def row(self, one: InstanceRow, *wishes: Wish) -> RoutableRow:
        """`wishes`: as if these were wanted of it."""
        return _row(one, _as_if(self.subject(one), wishes), self.groups.get(one.id, {}))

    def subject(self, one: InstanceRow) -> Subject:
        groups = self.groups.get(one.id, {})
        return _subject(one, self.fleet.leader, groups, self.choosers.of(one.name), self.now)


def _groups(term: int, only: int | None) -> dict[int, dict[int, _Group]]:
    more = f" AND l.instance_id = {int(only)}" if only is not None else ""
    found: dict[int, dict[int, _Group]] = defaultdict(dict)
    for id_, dp, *numbers in _read(GROUPS.format(more=more), [term]):
        found[id_][dp] = _Group(*map(int, numbers))
    return found


def _row(row: InstanceRow, subject: Subject, groups: dict[int, _Group]) -> RoutableRow:
    size = row.expected // row.current.topology.dp if row.current else 0
    verdicts = []
    # All DP groups that nobody spoke of by themselves are alike.
    apart = {wish.group for wish in subject.wishes} | {breaker.group for breaker in subject.breakers}
    alike: Verdict | None = None
    # Of a decode we know only those DP groups that operators spoke of: there may be others.
    for dp in subject.groups or sorted(group.group for group in row.groups):
        there = groups.get(dp, _Group(0, 0, 0, 0))
        if dp in apart or alike is None:
            verdict = domain.explain(domain.of_group(subject, dp))
            alike = verdict if dp not in apart else alike
        else:
            verdict = alike
        intent = domain.intent_of(subject.wishes, dp)
        silent = max(0, there.probeable - there.answering)
        verdicts.append(GroupVerdict(dp, there.registered, size, there.answering, intent, verdict, silent))
    return RoutableRow(row, domain.explain(subject), tuple(verdicts))


def _subject(
    row: InstanceRow, leader: LeaderRow, groups: dict[int, _Group], selectors: tuple[str, ...], now: float
) -> Subject:
    current = row.current
    registration = Registration(expected=row.role != "decode")
    if current is not None:
        registration = Registration(
            True,
            current.number,
            current.registered,
            current.expected,
            "" if current.full else current.missing_sentence(),
            row.complete,
            current.completed_at or current.opened_at,
        )
    health = Health(
        row.health,
        row.debt_since or row.retired_at,
        row.health_reason,
        row.debt_hold,
        sum(group.answering for group in groups.values()),
        sum(group.verified for group in groups.values()),
        sum(group.probeable for group in groups.values()),
    )
    wish = Wish(row.intent, None, row.intent_actor, row.intent_reason, row.intent_at or row.retired_at)
    return Subject(
        name=row.name,
        role=row.role,
        registration=registration,
        health=health,
        engine=_engine(row, now),
        groups=tuple(range(current.topology.dp)) if current is not None else (),
        wishes=(wish, *(Wish(g.intent, g.group, g.actor, g.reason, g.at) for g in row.groups)),
        breakers=tuple(
            Breaker(b.gateway, b.group, b.state, b.since, b.reason, b.heard_at, b.is_old(now)) for b in row.breakers
        ),
        selectors=selectors,
        watched=leader.leads(now),
        watched_at=leader.stamp or None,
    )


def _engine(row: InstanceRow, now: float) -> Engine | None:
    at = row.engine
    if not at.at:
        return None
    return Engine(State(at.state), at.sentence, at.since, at.asked_at, at.is_old(now))


def _as_if(subject: Subject, wishes: Collection[Wish]) -> Subject:
    about = {wish.group for wish in wishes}
    return replace(subject, wishes=(*(one for one in subject.wishes if one.group not in about), *wishes))


def _read(sql: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections[READER].cursor() as cursor:
        cursor.execute(sql, values if values is not None else [])
        return list(cursor.fetchall())
