"""How requests of pairs ended lately, as their gateways reported: counts a minute, added up by pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connections

from controlplane.databases import TRAFFIC

LATELY_MINUTES = 15
LEAST_SECONDS = 10.0
"""Of what was reported in the first seconds no pace is told yet: a report may be about more than these."""

FINE = "ok"
"""What a gateway calls a request that ended well; every other word is a failure of some kind."""

# Gateways may have reported for a part of that time only: what they began with tells the pace.
COUNTS = """
SELECT prefill, decode, outcome, SUM(count), (SELECT MIN(minute) FROM controlplane_outcomecount WHERE minute >= %s)
FROM controlplane_outcomecount
WHERE minute >= %s AND prefill IN ({prefills}) AND decode IN ({decodes}) GROUP BY prefill, decode, outcome"""
BUSIEST = """
SELECT prefill, decode FROM controlplane_outcomecount WHERE minute >= %s AND prefill <> '' AND decode <> ''
GROUP BY prefill, decode ORDER BY SUM(count) DESC, prefill, decode LIMIT %s"""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """Requests of one pair over the last minutes; `failures` by the gateways' own words, the most frequent first.

    `seconds`: of this time anything was reported of, by whichever gateway.
    """

    prefill: str
    decode: str
    requests: int
    failed: int
    failures: tuple[tuple[str, int], ...]
    seconds: float

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def failed_share(self) -> float:
        return self.failed / self.requests if self.requests else 0.0


def traffic(prefills: Sequence[str], decodes: Sequence[str], *, now: float) -> dict[Pair, TrafficRow]:
    """Of every pair of these that had any."""
    if not prefills or not decodes:
        return {}
    sql = COUNTS.format(prefills=", ".join(["%s"] * len(prefills)), decodes=", ".join(["%s"] * len(decodes)))
    counts: dict[Pair, dict[str, int]] = defaultdict(dict)
    seconds = LEAST_SECONDS
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(sql, [_since(now), _since(now), *prefills, *decodes])
        for prefill, decode, outcome, count, first in cursor.fetchall():
            counts[prefill, decode][outcome] = int(count)
            seconds = max(LEAST_SECONDS, now - 60.0 * first)
    return {pair: _row(pair, by, seconds) for pair, by in counts.items()}


def busiest(*, now: float, limit: int) -> tuple[TrafficRow, ...]:
    """The pairs with the most requests lately, whatever the matrix shows."""
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(BUSIEST, [_since(now), limit])
        pairs = [(str(prefill), str(decode)) for prefill, decode in cursor.fetchall()]
    found = traffic(sorted({p for p, _ in pairs}), sorted({d for _, d in pairs}), now=now)
    return tuple(found[pair] for pair in pairs if pair in found)


def _since(now: float) -> int:
    """The running minute counts as one, so this is a little less than what it says."""
    return int(now // 60) - LATELY_MINUTES + 1


def _row(pair: Pair, by: dict[str, int], seconds: float) -> TrafficRow:
    failures = sorted(((word, n) for word, n in by.items() if word != FINE), key=lambda one: (-one[1], one[0]))
    return TrafficRow(*pair, sum(by.values()), sum(n for _, n in failures), tuple(failures), seconds)
