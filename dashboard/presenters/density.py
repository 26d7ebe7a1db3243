"""When events happened, as bars of a drawing whose x is in percent and whose y is in pixels."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass

from controlplane.queries.searching import Density

from .ages import age_text

HEIGHT = 38.0
TALLEST = 24.0
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 604_800)
MOST_TICKS = 12
MOST_BARS = 76


@dataclass(frozen=True, slots=True)
class Bar:
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True)
class Tick:
    x: str
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """`mark`: where the moment looked at is, blank when it is outside. `anchor`: which side its word stands on."""

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    mark: str
    anchor: str
    total: int
    said: str


def bars_between(start: float, until: float) -> tuple[float, int, int]:
    """Where the first bar begins, how many seconds each has, and how many there are. They stand still as time goes on.

    >>> bars_between(1_000.0, 1_900.0), bars_between(0.0, 0.4)
    ((990.0, 15, 61), (0.0, 1, 1))
    """
    least = (until - start) / MOST_BARS
    width = next((step for step in STEPS if step >= least), STEPS[-1] * math.ceil(least / STEPS[-1]))
    first = start // width * width
    return first, width, max(1, math.ceil((until - first) / width))


def drawing(density: Density, mark: float | None = None) -> Drawing:
    until = density.start + density.width * len(density.bars)
    span, most = until - density.start, max(density.bars, default=0)
    wide = 100 / len(density.bars)
    bars = tuple(
        _bar(place * wide, wide * 0.72, max(3.0, TALLEST * count / most))
        for place, count in enumerate(density.bars)
        if count
    )
    at = None if mark is None else (mark - density.start) / span
    inside = at is not None and 0 <= at <= 1
    total = sum(density.bars)
    told = f"{total} events, in bars of {age_text(density.width)}, from {_clock(density.start)} to {_clock(until)} UTC"
    return Drawing(
        bars,
        _ticks(density.start, span),
        f"{at * 100:.2f}%" if at is not None and inside else "",
        "end" if at is not None and at > 0.5 else "start",
        total,
        told,
    )


def _bar(x: float, width: float, height: float) -> Bar:
    return Bar(f"{x:.2f}%", f"{HEIGHT - height:.1f}", f"{width:.2f}%", f"{height:.1f}")


def _ticks(start: float, span: float) -> tuple[Tick, ...]:
    step = next((step for step in STEPS if span / step <= MOST_TICKS), STEPS[-1])
    first = -(-start // step) * step
    # A word must not be cut off at the right edge.
    form = "%m-%d" if step >= 86_400 else ("%H:%M" if step >= 60 else "%H:%M:%S")
    places = [first + step * number for number in range(MOST_TICKS + 1)]
    return tuple(
        Tick(f"{(at - start) / span * 100:.2f}%", utc(at).strftime(form)) for at in places if at <= start + span * 0.97
    )


def _clock(at: float) -> str:
    return f"{utc(at):%H:%M:%S}"


def utc(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, datetime.UTC)
