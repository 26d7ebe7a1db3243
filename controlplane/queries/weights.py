"""Whose weights are published: by instance, how many ranks of how many, how large, and which claims stand in conflict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.domain.errors import Refused
from controlplane.domain.published import Clash, Coverage, Run, coverage

from . import tensors
from .sql import read

PAGE = 50
CLASHES = 20
RUNS = 8
"""How many runs of missing ranks are named for an instance."""

# Sizes are what workers say of themselves: added as floats, so that no sum of them overflows.
SUMS = """
SELECT i.id, i.name, i.role, i.intent, MAX(l.dp * l.cp * l.tp * l.pp),
 SUM(CASE WHEN e.state = 'live' THEN 1 ELSE 0 END), SUM(CASE WHEN e.state = 'conflict' THEN 1 ELSE 0 END),
 MIN(CASE WHEN e.state = 'live' THEN e.rank END), MAX(CASE WHEN e.state = 'live' THEN e.rank END),
 SUM(CASE WHEN e.state = 'live' AND e.rank >= l.dp * l.cp * l.tp * l.pp THEN 1 ELSE 0 END),
 SUM(CASE WHEN e.state = 'live' AND e.greeted THEN 1 ELSE 0 END),
 COUNT(DISTINCT CASE WHEN e.state = 'live' THEN e.digest END),
 SUM(CASE WHEN e.state = 'live' THEN CAST(e.tensors AS DOUBLE PRECISION) ELSE 0.0 END),
 SUM(CASE WHEN e.state = 'live' THEN CAST(e.total_bytes AS DOUBLE PRECISION) ELSE 0.0 END),
 MIN(CASE WHEN e.state = 'live' THEN e.at END), MAX(CASE WHEN e.state = 'live' THEN e.at END)
FROM controlplane_instance i
LEFT JOIN controlplane_engineinfo e ON e.instance_id = i.id AND e.state <> 'retired'
LEFT JOIN controlplane_launch l ON l.instance_id = i.id AND l.state = 'current' AND l.ended_at IS NULL
WHERE {which} GROUP BY i.id, i.name, i.role, i.intent ORDER BY i.name"""
PUBLISHING = "(e.id IS NOT NULL OR (i.role = 'seed' AND i.intent <> 'retired'))"
GAPS = """
SELECT instance_id, low, high FROM (
 SELECT instance_id, prev + 1 AS low, rank - 1 AS high, ROW_NUMBER() OVER (PARTITION BY instance_id ORDER BY rank) AS place
 FROM (
  SELECT instance_id, rank, LAG(rank) OVER (PARTITION BY instance_id ORDER BY rank) AS prev
  FROM controlplane_engineinfo WHERE state = 'live' AND instance_id IN ({marks})
 ) AS laid WHERE rank - prev > 1
) AS gaps WHERE place <= %s ORDER BY instance_id, place"""
HEADS = """
SELECT first.instance_id, SUBSTR(b.compressed, 1, 4096) FROM (
 SELECT instance_id, digest, ROW_NUMBER() OVER (PARTITION BY instance_id ORDER BY rank) AS place
 FROM controlplane_engineinfo WHERE state = 'live' AND instance_id IN ({marks})
) AS first JOIN controlplane_enginebody b ON b.digest = first.digest WHERE first.place = 1"""
CONFLICTS = """
SELECT i.name, c.rank, c.epoch, c.session, c.digest, c.old_style, c.at, h.session, h.epoch, h.digest
FROM controlplane_engineinfo c JOIN controlplane_instance i ON i.id = c.instance_id
LEFT JOIN controlplane_engineinfo h ON h.instance_id = c.instance_id AND h.rank = c.rank AND h.state = 'live'
WHERE c.state = 'conflict'{more} ORDER BY i.name, c.rank LIMIT %s"""

SHOWN = ("", "conflict", "incomplete")


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """The published sessions of one instance. `coverage` is None when there is none; sizes are sums over its ranks.

    `bodies`: how many different dictionaries its ranks publish. `greeted`: how many sessions ever accepted a connection.
    `origins`: whom its first rank says that it had them from, the nearest first.
    """

    id: int
    name: str
    role: str
    intent: str
    coverage: Coverage | None
    sessions: int
    conflicts: int
    greeted: int
    bodies: int
    tensors: int
    total_bytes: int
    first_at: float | None
    last_at: float | None
    origins: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """One word: conflict, incomplete, published or nothing."""
        if self.conflicts:
            return "conflict"
        if self.coverage is None:
            return "nothing"
        return "published" if self.coverage.complete else "incomplete"

    @property
    def incomplete(self) -> bool:
        return self.coverage is not None and not self.coverage.complete

    def is_shown(self, only: str) -> bool:
        """Whether it belongs to a list of those in conflict, or of those that are incomplete: it may be both."""
        return {"": True, "conflict": self.conflicts > 0, "incomplete": self.incomplete}[only]


@dataclass(frozen=True, slots=True)
class PublishedPage:
    """Instances in the order of their names; `next` asks for the rest. The counts are of all, whatever is asked for."""

    rows: tuple[PublishedRow, ...]
    next: str
    total: int
    instances: int
    incomplete: int
    sessions: int
    conflicts: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class ClashRow:
    instance: str
    rank: int
    epoch: int
    held_epoch: int | None
    at: float
    clash: Clash


def published(*, text: str = "", only: str = "", after: str = "", limit: int = PAGE) -> PublishedPage:
    """Whoever publishes, and seeds that do not yet. Raises Refused (malformed)."""
    if only not in SHOWN:
        raise Refused(f"only must be {' or '.join(filter(None, SHOWN))}, not {only[:40]}", code="malformed")
    raw = {values[0]: values for values in read(SUMS.format(which=PUBLISHING))}
    every = [_row(values, ()) for values in raw.values()]
    matching = [row for row in every if text.lower() in row.name.lower() and row.is_shown(only)]
    # By code points as the cursor compares, whatever order of letters the database has.
    behind = sorted((row for row in matching if row.name > after), key=lambda row: row.name)
    shown = behind[:limit]
    ids = [row.id for row in shown]
    gaps, had_from = _gaps(ids), _origins(ids)
    return PublishedPage(
        tuple(_row(raw[row.id], gaps[row.id], had_from.get(row.id, ())) for row in shown),
        shown[-1].name if len(behind) > limit else "",
        len(matching),
        len(every),
        sum(row.incomplete for row in every),
        sum(row.sessions for row in every),
        sum(row.conflicts for row in every),
        sum(row.total_bytes for row in every),
    )


def of_instance(name: str) -> PublishedRow:
    """One instance, whether it publishes or not. Raises Refused (not_found)."""
    found = read(SUMS.format(which="i.name = %s"), [name])
    if not found:
        raise Refused(f"no instance is named {name}", code="not_found")
    id_ = found[0][0]
    return _row(found[0], _gaps([id_])[id_], _origins([id_]).get(id_, ()))


def clashes(*, instance: str = "", limit: int = CLASHES) -> tuple[ClashRow, ...]:
    """Sessions that claim a rank whose session answers, by instance and rank."""
    more = " AND i.name = %s" if instance else ""
    rows = read(CONFLICTS.format(more=more), [*([instance] if instance else []), limit])
    return tuple(
        ClashRow(name, rank, epoch, held_epoch, at, Clash(rank, session, holder, bool(old), digest == other))
        for name, rank, epoch, session, digest, old, at, holder, held_epoch, other in rows
    )


def _gaps(wanted: Sequence[int]) -> dict[int, list[Run]]:
    gaps: dict[int, list[Run]] = defaultdict(list)
    sql = GAPS.format(marks=", ".join(["%s"] * len(wanted)) or "NULL")
    for id_, low, high in read(sql, [*wanted, RUNS]):
        gaps[id_].append((int(low), int(high)))
    return gaps


def _origins(wanted: Sequence[int]) -> dict[int, tuple[str, ...]]:
    sql = HEADS.format(marks=", ".join(["%s"] * len(wanted)) or "NULL")
    return {id_: tensors.origins(bytes(head)) for id_, head in read(sql, [*wanted])}


def _row(values: tuple[Any, ...], gaps: Sequence[Run], had_from: tuple[str, ...] = ()) -> PublishedRow:
    id_, name, role, intent, expected, live, conflicts, lowest, highest, beyond, greeted, bodies, *more = values
    counted, total_bytes, first_at, last_at = more
    covered = None
    if live:
        covered = coverage(int(live), int(highest), gaps, int(lowest), expected, beyond=int(beyond), limit=RUNS)
    return PublishedRow(
        id_,
        name,
        role,
        intent,
        covered,
        int(live or 0),
        int(conflicts or 0),
        int(greeted or 0),
        int(bodies or 0),
        int(counted or 0),
        int(total_bytes or 0),
        first_at,
        last_at,
        had_from,
    )
