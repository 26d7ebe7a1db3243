"""What the ranks of some instances look like in a row of a list: one mark for each, or for each DP group of large ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from controlplane.databases import READER
from controlplane.domain.topology import Slot, Topology

from .routable import RoutableRow

SINGLE = 64
"""Up to so many ranks each has a mark of its own."""

OK, LATE, WAIT, DOWN, MISS = "ok", "late", "wait", "down", "miss"
WORST = (DOWN, MISS, LATE, WAIT, OK)

SIZE = "l.dp * l.cp * l.tp * l.pp"
CURRENT = """
FROM controlplane_launch l JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number
WHERE l.state = 'current' AND l.ended_at IS NULL AND l.instance_id IN ({marks})"""
RANKS = f"""
SELECT r.instance_id, r.dp, r.cp, r.tp, r.pp, r.contact, r.flags, r.left_at IS NOT NULL {CURRENT} AND {SIZE} <= {SINGLE}"""
HERE = "r.left_at IS NULL"
GROUPS = f"""
SELECT r.instance_id, r.dp, SUM(CASE WHEN {HERE} THEN 1 ELSE 0 END),
 SUM(CASE WHEN r.left_at IS NOT NULL AND r.contact = 'refused' THEN 1 ELSE 0 END),
 SUM(CASE WHEN {HERE} AND r.contact IN ('silent', 'unreached', 'stranger', 'refused') THEN 1 ELSE 0 END),
 SUM(CASE WHEN {HERE} AND r.contact = 'unprobed' AND r.flags NOT LIKE '%%unprobed%%' THEN 1 ELSE 0 END)
 {CURRENT} AND {SIZE} > {SINGLE} GROUP BY r.instance_id, r.dp"""


@dataclass(frozen=True, slots=True)
class Marks:
    """One DP group: its marks in slot order. `each` is how many ranks one mark stands for, of which it shows the worst."""

    group: int
    marks: tuple[str, ...]
    each: int = 1


def strips(rows: Sequence[RoutableRow]) -> Mapping[int, tuple[Marks, ...]]:
    """By instance id; nothing for those without a launch. Two queries. Call it inside a snapshot."""
    with_launch = {row.instance.id: row.instance.current.topology for row in rows if row.instance.current is not None}
    ids = list(with_launch)
    single: dict[int, dict[Slot, str]] = defaultdict(dict)
    for id_, dp, cp, tp, pp, contact, flags, left in _read(RANKS, ids):
        single[id_][Slot(dp, cp, tp, pp)] = _mark(contact, flags, bool(left))
    groups: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for id_, dp, *numbers in _read(GROUPS, ids):
        groups[id_][dp] = tuple(map(int, numbers))
    return {
        id_: _each(topology, single[id_]) if topology.size <= SINGLE else _worst(topology, groups[id_])
        for id_, topology in with_launch.items()
    }


def _mark(contact: str, flags: str, left: bool) -> str:
    if left:
        # Whoever left without being refused went elsewhere, or was taken out.
        return DOWN if contact == "refused" else MISS
    if contact == "unprobed":
        return OK if "unprobed" in flags else WAIT
    return OK if contact == "up" else LATE


def _each(topology: Topology, seen: Mapping[Slot, str]) -> tuple[Marks, ...]:
    found: dict[int, list[str]] = defaultdict(list)
    for slot in topology.slots():
        found[slot.dp].append(seen.get(slot, MISS))
    return tuple(Marks(dp, tuple(marks)) for dp, marks in found.items())


def _worst(topology: Topology, seen: Mapping[int, tuple[int, ...]]) -> tuple[Marks, ...]:
    size = topology.size // topology.dp
    return tuple(Marks(dp, (_of_group(size, *seen.get(dp, (0, 0, 0, 0))),), size) for dp in range(topology.dp))


def _of_group(size: int, here: int, refused: int, late: int, waiting: int) -> str:
    there = {DOWN: refused, MISS: size - here, LATE: late, WAIT: waiting}
    return next((mark for mark in WORST if there.get(mark, 0) > 0), OK)


def _read(sql: str, ids: Collection[int]) -> list[tuple[Any, ...]]:
    wanted = list(ids) or [-1]
    with connections[READER].cursor() as cursor:
        cursor.execute(sql.format(marks=", ".join(["%s"] * len(wanted))), wanted)
        return list(cursor.fetchall())
