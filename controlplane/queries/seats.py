"""Who sits in some DP groups now: the first ranks of each, in slot order, in one query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connections

from controlplane.databases import READER
from controlplane.domain.topology import Slot, Topology

from .wording import address, slot_name

MOST = 64
"""Ranks of one DP group that are listed; all are counted."""

SEATS = """
SELECT * FROM (
 SELECT r.instance_id, l.dp AS dps, l.cp AS cps, l.tp AS tps, l.pp AS pps, r.dp, r.cp, r.tp, r.pp, r.ip, r.port, r.contact,
  r.seen_at, COUNT(*) OVER (PARTITION BY r.instance_id, r.dp) AS present,
  ROW_NUMBER() OVER (PARTITION BY r.instance_id, r.dp ORDER BY r.cp, r.tp, r.pp) AS place
 FROM controlplane_launch l JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number
 WHERE l.state = 'current' AND l.ended_at IS NULL AND r.left_at IS NULL AND ({which})
) AS seated WHERE place <= %s ORDER BY instance_id, dp, place"""

Group = tuple[int, int]
"""Instance id and DP group."""


@dataclass(frozen=True, slots=True)
class SeatRow:
    """A rank of a DP group; `of`: how many are registered in that group."""

    slot: Slot
    topology: Topology
    address: str
    contact: str
    seen_at: float
    of: int

    @property
    def within(self) -> str:
        """Its name in its DP group."""
        return slot_name(self.slot, self.topology).split(" ", 1)[1]


def groups(which: Sequence[Group], *, limit: int = MOST) -> dict[Group, tuple[SeatRow, ...]]:
    """The first `limit` registered ranks of each of these groups, of the launch that is current."""
    if not which:
        return {}
    sql = SEATS.format(which=" OR ".join(["(r.instance_id = %s AND r.dp = %s)"] * len(which)))
    found: dict[Group, list[SeatRow]] = defaultdict(list)
    with connections[READER].cursor() as cursor:
        cursor.execute(sql, [*(value for group in which for value in group), limit])
        for id_, dps, cps, tps, pps, dp, cp, tp, pp, ip, port, contact, seen_at, present, _ in cursor.fetchall():
            seat = SeatRow(
                Slot(dp, cp, tp, pp), Topology(dps, cps, tps, pps), address(ip, port), contact, seen_at, present
            )
            found[id_, dp].append(seat)
    return {group: tuple(seats) for group, seats in found.items()}
