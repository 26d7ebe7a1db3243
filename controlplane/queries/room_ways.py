"""How each prefill's rooms find their DP group, how many are open by whose count, and how many collided lately."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from controlplane.databases import READER, TRAFFIC

from . import memo
from .evidence import follows
from .rows import InstanceRow

LATELY_SECONDS = 3600.0
PAGE = 50

# What a witness says of the whole instance and of its DP groups overlaps: the larger one is believed.
OPEN = """
SELECT instance, kind, SUM(CASE WHEN whole > parts THEN whole ELSE parts END), COUNT(*), MIN(oldest) FROM (
 SELECT instance, kind, source, SUM(CASE WHEN "group" < 0 THEN open_rooms ELSE 0 END) AS whole,
 SUM(CASE WHEN "group" < 0 THEN 0 ELSE open_rooms END) AS parts, MIN(taken_at) AS oldest
 FROM controlplane_openrooms WHERE instance IN ({marks}) GROUP BY instance, kind, source
) AS said GROUP BY instance, kind ORDER BY kind"""
COLLIDED = "SELECT instance_id, COUNT(*), MAX(at) FROM controlplane_roomcollision WHERE at > %s GROUP BY instance_id"


@dataclass(frozen=True, slots=True)
class OpenCount:
    """What one kind of witness (gateway, worker) counts as open; `taken_at` is the oldest of its counts."""

    kind: str
    rooms: int
    sources: int
    taken_at: float


@dataclass(frozen=True, slots=True)
class WayRow:
    """`follows` is None while nothing is registered: then nobody knows."""

    row: InstanceRow
    follows: bool | None
    open: tuple[OpenCount, ...]
    collided: int
    collided_at: float | None


@dataclass(frozen=True, slots=True)
class WayPage:
    """Prefills in the order of their names; `next` asks for the rest, `total` counts all that match."""

    rows: tuple[WayRow, ...]
    next: str
    total: int


def ways(*, now: float, text: str = "", after: str = "", limit: int = PAGE) -> WayPage:
    """Prefills that are not retired and have `text` in their names. Call it inside a snapshot."""
    found = memo.weighed(now=now).fleet
    matching = [r for r in found.instances if r.role == "prefill" and not r.retired and text.lower() in r.name.lower()]
    # By code points as the cursor compares, whatever order of letters the database has.
    behind = sorted((row for row in matching if row.name > after), key=lambda row: row.name)
    shown = behind[:limit]
    counted = _open([row.name for row in shown])
    collided = {id_: (int(count), at) for id_, count, at in _read(TRAFFIC, COLLIDED, [now - LATELY_SECONDS])}
    rows = []
    for row in shown:
        count, at = collided.get(row.id, (0, None))
        how = follows(row) if row.current is not None else None
        rows.append(WayRow(row, how, tuple(counted[row.name]), count, at))
    return WayPage(tuple(rows), shown[-1].name if len(behind) > limit else "", len(matching))


def _open(names: Sequence[str]) -> dict[str, list[OpenCount]]:
    found: dict[str, list[OpenCount]] = defaultdict(list)
    sql = OPEN.format(marks=", ".join(["%s"] * len(names)) or "NULL")
    for name, kind, rooms, sources, taken_at in _read(READER, sql, list(names)):
        found[name].append(OpenCount(kind, int(rooms), int(sources), taken_at))
    return found


def _read(alias: str, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())
