"""What stands beside the registration of an instance: intents of its DP groups, open drains, breakers of gateways."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.db import connections

from controlplane.databases import READER
from controlplane.models import ALL_GROUPS

INTENTS = 'SELECT instance_id, "group", intent, actor, reason, at FROM controlplane_groupintent'
DRAINS = """
SELECT instance_id, "group", id, launch, progress, actor, reason, started_at, deadline_at, min_ready, blockers, checked_at,
 empty_at, cordon_revision FROM controlplane_drain WHERE ended_at IS NULL"""
# A gateway that left has no say any more; one that is only silent keeps its last word.
BREAKERS = """
SELECT b.instance, b."group", b.gateway, b.state, b.since, b.reported_at, b.reason, g.seen_at, g.lease_seconds
FROM controlplane_breaker b LEFT JOIN controlplane_gateway g ON g.name = b.gateway WHERE g.left_at IS NULL"""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """What operators want of one DP group; a group without a row is enabled."""

    group: int
    intent: str
    actor: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class OpenDrainRow:
    """A drain that has not ended; `group` is None for the whole instance. `blockers` are sentences, as last checked."""

    id: int
    group: int | None
    launch: int | None
    progress: str
    actor: str
    reason: str
    started_at: float
    deadline_at: float | None
    min_ready: int
    blockers: tuple[str, ...]
    checked_at: float | None
    empty_at: float | None
    cordon_revision: int

    @property
    def what(self) -> str:
        return "the instance" if self.group is None else f"DP group {self.group}"


@dataclass(frozen=True, slots=True)
class BreakerRow:
    """What one gateway, or router (`router:NAME`), last said of an instance or group. `heard_at`: its last word of any kind."""

    gateway: str
    group: int | None
    state: str
    since: float
    reported_at: float
    reason: str
    heard_at: float
    lease_seconds: float | None

    def is_old(self, now: float) -> bool:
        """Its gateway has been silent for longer than its lease."""
        return now - self.heard_at > (self.lease_seconds or ROUTER_LEASE_SECONDS)


ROUTER_LEASE_SECONDS = 60.0
"""A router's breakers are read with its other metrics; it has no lease of its own."""


@dataclass(frozen=True, slots=True)
class Standing:
    """All of it for one instance."""

    groups: tuple[GroupRow, ...] = ()
    drains: tuple[OpenDrainRow, ...] = ()
    breakers: tuple[BreakerRow, ...] = ()


@dataclass(slots=True)
class Standings:
    """Three queries, whatever the size of the fleet: by instance id, and breakers by name."""

    groups: dict[int, list[GroupRow]] = field(default_factory=lambda: defaultdict(list))
    drains: dict[int, list[OpenDrainRow]] = field(default_factory=lambda: defaultdict(list))
    breakers: dict[str, list[BreakerRow]] = field(default_factory=lambda: defaultdict(list))

    def of(self, id_: int, name: str) -> Standing:
        return Standing(
            tuple(self.groups.get(id_, ())), tuple(self.drains.get(id_, ())), tuple(self.breakers.get(name, ()))
        )


def read(instance: tuple[int, str] | None = None) -> Standings:
    """Of every instance, or of the one given as (id, name). Call it inside a snapshot."""
    found = Standings()
    by_id, by_name = ([], []) if instance is None else ([instance[0]], [instance[1]])
    where = " WHERE instance_id = %s" if by_id else ""
    for id_, *values in _rows(f'{INTENTS}{where} ORDER BY instance_id, "group"', by_id):
        found.groups[id_].append(GroupRow(*values))
    where = " AND instance_id = %s" if by_id else ""
    for id_, *values in _rows(f'{DRAINS}{where} ORDER BY instance_id, "group"', by_id):
        found.drains[id_].append(_drain(*values))
    where = " AND b.instance = %s" if by_name else ""
    for name, *values in _rows(f'{BREAKERS}{where} ORDER BY b.instance, b.gateway, b."group"', by_name):
        found.breakers[name].append(_breaker(*values))
    return found


def scope(group: int) -> int | None:
    """A `group` column as rows have it: None is the whole instance."""
    return None if group == ALL_GROUPS else group


def _drain(group: int, id_: int, launch: int | None, progress: str, *more: Any) -> OpenDrainRow:
    actor, reason, started_at, deadline_at, min_ready, blockers, checked_at, empty_at, revision = more
    said = tuple(map(_sentence, msgspec.json.decode(blockers or "[]")))
    return OpenDrainRow(
        id_,
        scope(group),
        launch,
        progress,
        actor,
        reason,
        started_at,
        deadline_at,
        min_ready,
        said,
        checked_at,
        empty_at,
        revision,
    )


def _sentence(blocker: Any) -> str:
    return str(blocker["sentence"]) if isinstance(blocker, dict) else str(blocker)


def _breaker(
    group: int, gateway: str, state: str, since: float, reported_at: float, reason: str, *more: Any
) -> BreakerRow:
    seen_at, lease = more
    heard_at = max(reported_at, seen_at or 0.0)
    return BreakerRow(gateway, scope(group), state, since, reported_at, reason, heard_at, lease)


def _rows(sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connections[READER].cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())
