"""Series of samples, a bounded number of points however long the time: what happened a second, and what there was.

A point of a counter is its rate a second. Of what there is at one moment it is the most that was seen, so that a peak
is not lost between two points. Where nobody led, or nothing was asked, it is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from controlplane.databases import TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.models.samples import SAMPLE_SECONDS, SAMPLES_KEPT_SECONDS

__all__ = ["KEPT_SECONDS", "MOST_POINTS", "NAMES", "SeriesRows", "recent", "series"]

KEPT_SECONDS = SAMPLES_KEPT_SECONDS
MOST_POINTS = 400
STEPS = (SAMPLE_SECONDS, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)
"""How far apart points may be, in seconds: steps that a clock knows, so that points stay where they are as time goes on."""

_RATE = "SUM({0}) / NULLIF(SUM(seconds), 0)"
_MOST = "MAX({0})"
NAMES: Mapping[str, str] = {
    **dict.fromkeys(("registrations", "lookups", "bindings", "collisions", "refusals", "probes", "unanswered"), _RATE),
    **dict.fromkeys(("rooms", "probe_p50_ms", "probe_p99_ms"), _MOST),
}
"""Every series and how the samples of one point come together."""

# A sample is about the time before it: it belongs where its middle lies.
POINTS = """SELECT CAST(FLOOR((at - seconds / 2) / %s) AS BIGINT) AS step, MAX(at), {columns}
FROM controlplane_sample WHERE at > %s AND at <= %s GROUP BY 1 ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class SeriesRows:
    """`values[name][n]` is about the `step` seconds from `since + n * step` on. All have as many points."""

    since: float
    step: float
    values: Mapping[str, tuple[float | None, ...]]
    sampled_at: float | None
    """When the newest of these samples was taken; None when there is none."""

    @property
    def count(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def at(self, point: int) -> float:
        return self.since + point * self.step


def series(names: Sequence[str], *, since: float, until: float, points: int = MOST_POINTS) -> SeriesRows:
    """These series between two moments, in one query, at most `points` each. Raises Refused (malformed)."""
    if strange := [name for name in names if name not in NAMES]:
        raise Refused(f"there is no series {strange[0]}; there are {', '.join(NAMES)}", code="malformed")
    if not names or not 1 <= points <= MOST_POINTS:
        raise Refused(f"ask for a series, of 1 to {MOST_POINTS} points", code="malformed")
    if not since < until or until - since > points * STEPS[-1]:
        raise Refused("a series begins before it ends, and is not longer than what is kept", code="malformed")
    step = next(step for step in STEPS if _count(since, until, step) <= points or step == STEPS[-1])
    first, count = math.floor(since / step), _count(since, until, step)
    columns = ", ".join(NAMES[name].format(name) for name in names)
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(
            POINTS.format(columns=columns), [step, first * step, (first + count) * step + 2 * SAMPLE_SECONDS]
        )
        found: list[tuple[Any, ...]] = cursor.fetchall()
    inside = [row for row in found if first <= row[0] < first + count]
    values: dict[str, list[float | None]] = {name: [None] * count for name in names}
    for place, _, *numbers in inside:
        for name, number in zip(names, numbers, strict=True):
            values[name][place - first] = None if number is None else float(number)
    return SeriesRows(
        first * step,
        step,
        {name: tuple(numbers) for name, numbers in values.items()},
        max((float(row[1]) for row in inside), default=None),
    )


def recent(names: Sequence[str], *, now: float, seconds: float = 900.0, points: int = 32) -> SeriesRows:
    """What a sparkline beside a number shows: the last quarter of an hour."""
    return series(names, since=now - seconds, until=now, points=points)


def _count(since: float, until: float, step: float) -> int:
    """How many steps of the clock touch this time."""
    return math.ceil(until / step) - math.floor(since / step)
