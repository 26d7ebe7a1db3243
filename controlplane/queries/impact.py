"""What several targets mean together before they are taken out of use: what can still be sent work, which rooms live."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connections
from django.db.models import Max

from controlplane.databases import READER, TRAFFIC
from controlplane.models import ALL_GROUPS, Instance, RoomBinding

from . import routable
from .routable import Counts

LOOKED_AT = 100_000
"""How many of the newest bindings are read: the journal has no index by instance."""

ALIVE = """
SELECT instance_id, dp, COUNT(*) FROM controlplane_roombinding
WHERE id > %s AND expires_ms > %s AND instance_id IN ({marks}) GROUP BY instance_id, dp"""


@dataclass(frozen=True, slots=True)
class RoleImpact:
    """Of one role: what can be sent work now, and what would remain."""

    role: str
    now: Counts
    after: Counts


@dataclass(frozen=True, slots=True)
class Impact:
    """All of the targets at once. Only the roles that some target has."""

    roles: tuple[RoleImpact, ...]
    pairs_now: int
    pairs_after: int


@dataclass(frozen=True, slots=True)
class Alive:
    """Living bindings of rooms. `whole`: all of the journal was looked at; else there may be more."""

    rooms: int
    whole: bool


def together(targets: Collection[tuple[str, int]], *, now: float) -> Impact:
    """Each target an instance and a DP group (-1: all of it)."""
    before, after = routable.together(now=now, gone=targets)
    names = {name for name, _ in targets}
    roles = sorted({row.role for row in before if row.name in names})
    return Impact(
        tuple(RoleImpact(role, routable.count(before, role), routable.count(after, role)) for role in roles),
        *(
            routable.count(rows, "prefill").instances * routable.count(rows, "decode").instances
            for rows in (before, after)
        ),
    )


def alive(targets: Collection[tuple[str, int]], *, now: float) -> Alive:
    """Bindings that the wire still answers for; a room that was bound anew counts once more."""
    ids = dict(Instance.objects.using(READER).filter(name__in=[name for name, _ in targets]).values_list("name", "pk"))
    wanted = {(ids[name], group) for name, group in targets if name in ids}
    newest = RoomBinding.objects.using(TRAFFIC).aggregate(newest=Max("id"))["newest"] or 0
    if not wanted or not newest:
        return Alive(0, True)
    first = max(0, newest - LOOKED_AT)
    marks = ", ".join(["%s"] * len({id_ for id_, _ in wanted}))
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(ALIVE.format(marks=marks), [first, round(now * 1000), *sorted({id_ for id_, _ in wanted})])
        found = cursor.fetchall()
    rooms = sum(count for id_, dp, count in found if (id_, ALL_GROUPS) in wanted or (id_, dp) in wanted)
    return Alive(rooms, first == 0 or not RoomBinding.objects.using(TRAFFIC).filter(id__lte=first).exists())
