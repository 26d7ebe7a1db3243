"""What gateways and routers reported, as pages show it: breakers, open rooms and outcomes, of one of them or of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connections
from django.db.models import Sum

from controlplane.databases import READER, TRAFFIC
from controlplane.models import Breaker, OpenRooms, OutcomeCount

from . import drains
from .drains import DrainRow
from .standing import scope

# Of one instance a gateway counts the whole and its DP groups: the larger of the two is what is open.
OPEN = """
SELECT source, SUM(CASE WHEN whole > parts THEN whole ELSE parts END), MIN(taken_at) FROM (
 SELECT source, instance, MAX(CASE WHEN "group" = -1 THEN open_rooms ELSE 0 END) AS whole,
 SUM(CASE WHEN "group" = -1 THEN 0 ELSE open_rooms END) AS parts, MIN(taken_at) AS taken_at
 FROM controlplane_openrooms WHERE kind = 'gateway' GROUP BY source, instance) AS counted GROUP BY source"""

MOST_ROWS = 200
MOST_PAIRS = 100
MOST_DRAINS = 200


@dataclass(frozen=True, slots=True)
class OpenCount:
    """`rooms` are open by the last word of a gateway; `at`: when the oldest count of these was true."""

    rooms: int
    at: float


@dataclass(frozen=True, slots=True)
class ShutRow:
    """A breaker of one gateway or router (`router:NAME`)."""

    instance: str
    group: int | None
    state: str
    since: float
    reported_at: float
    reason: str


@dataclass(frozen=True, slots=True)
class OpenRow:
    """How many rooms are open in a DP group (None: the whole instance), as of `at`."""

    instance: str
    group: int | None
    rooms: int
    at: float


@dataclass(frozen=True, slots=True)
class PairRow:
    """How requests of one pair ended, by outcome. Blank names: it never got so far."""

    prefill: str
    decode: str
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def open_by_gateway() -> dict[str, OpenCount]:
    with connections[READER].cursor() as cursor:
        cursor.execute(OPEN)
        return {source: OpenCount(int(rooms), at) for source, rooms, at in cursor.fetchall()}


def outcomes_by_gateway(*, since_minute: int) -> dict[str, dict[str, int]]:
    """By gateway and outcome, since a minute (epoch seconds / 60)."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    since = OutcomeCount.objects.using(TRAFFIC).filter(minute__gte=since_minute)
    for gateway, outcome, count in since.values_list("gateway", "outcome").annotate(total=Sum("count")):
        found[gateway][outcome] = count
    return found


def breakers(speaker: str) -> tuple[ShutRow, ...]:
    """Those of one gateway or router that are not closed first; MOST_ROWS + 1 at most."""
    found = Breaker.objects.using(READER).filter(gateway=speaker)
    # "closed" is the first of the three in the alphabet.
    rows = found.order_by("-state", "instance", "group")[: MOST_ROWS + 1]
    return tuple(
        ShutRow(row.instance, scope(row.group), str(row.state), row.since, row.reported_at, row.reason) for row in rows
    )


def open_rooms(gateway: str) -> tuple[OpenRow, ...]:
    """By instance and DP group; MOST_ROWS + 1 at most."""
    found = OpenRooms.objects.using(READER).filter(kind=OpenRooms.Kind.GATEWAY, source=gateway)
    rows = found.order_by("instance", "group")[: MOST_ROWS + 1]
    return tuple(OpenRow(row.instance, scope(row.group), row.open_rooms, row.taken_at) for row in rows)


def outcomes(gateway: str, *, since_minute: int) -> tuple[PairRow, ...]:
    """By pair, the busiest first; MOST_PAIRS + 1 at most."""
    since = OutcomeCount.objects.using(TRAFFIC).filter(minute__gte=since_minute, gateway=gateway)
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for prefill, decode, outcome, count in since.values_list("prefill", "decode", "outcome").annotate(
        total=Sum("count")
    ):
        found[prefill, decode][outcome] = count
    pairs = (PairRow(*pair, counts) for pair, counts in found.items())
    return tuple(sorted(pairs, key=lambda pair: (-pair.total, pair.prefill, pair.decode))[: MOST_PAIRS + 1])


def waited_for(who: str) -> tuple[DrainRow, ...]:
    """Open drains that wait for `gateway NAME` or `router NAME` to stop, among the MOST_DRAINS newest."""
    return tuple(row for row in drains.listing(ended=False, limit=MOST_DRAINS) if who in row.waiting_for)
