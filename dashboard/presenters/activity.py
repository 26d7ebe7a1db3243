"""What the activity page says before it draws: how much goes on, and of which time nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.queries.series import SeriesRows

from .charts import ChartView, Hole, holes
from .spans import MOST_SECONDS, RANGES, Span

STALE_SECONDS = 30.0
"""Three samples are missing."""

MOST_HOLES = 3


@dataclass(frozen=True, slots=True)
class RangeView:
    key: str
    query: str
    here: bool


@dataclass(frozen=True, slots=True)
class Head:
    """`silent_since`: since when nothing was sampled, when that should have been; `empty`: nothing at all is known."""

    ranges: tuple[RangeView, ...]
    span: Span
    earlier: str
    later: str
    step: str
    sampled_at: float | None
    empty: bool
    silent_since: float | None
    holes: tuple[Hole, ...]
    more_holes: int
    sentence: str


def head_of(span: Span, fine: SeriesRows, charts: Sequence[ChartView], *, now: float) -> Head:
    missing = holes(fine)
    later = span.later(now=now)
    silent = bool(span.key) and fine.sampled_at is not None and now - fine.sampled_at > STALE_SECONDS
    return Head(
        ranges=tuple(RangeView(key, f"range={key}", key == span.key) for key in RANGES),
        span=span,
        # What is older than a day is not kept.
        earlier=span.earlier().query if span.since > now - MOST_SECONDS else "",
        later=later.query if later else "",
        step=step_text(fine.step),
        sampled_at=fine.sampled_at,
        empty=fine.sampled_at is None,
        silent_since=fine.sampled_at if silent else None,
        holes=missing[:MOST_HOLES],
        more_holes=len(missing[MOST_HOLES:]),
        sentence="" if fine.sampled_at is None or silent or not span.key else sentence(charts),
    )


def sentence(charts: Sequence[ChartView]) -> str:
    """What goes on now, in one sentence."""
    now = {line.label: line.now for chart in charts for line in chart.lines}
    refused = "nothing is refused" if now["refused"] == "0" else f"{now['refused']} requests a minute are refused"
    return (
        f"{now['look-ups']} look-ups a second; {now['opened']} rooms a second are opened and {now['alive']} are alive;"
        f" {refused}."
    )


def step_text(seconds: float) -> str:
    """
    >>> step_text(10.0), step_text(300.0), step_text(3600.0)
    ('10 s', '5 min', '1 h')
    """
    if seconds % 3600 == 0:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds % 60 == 0 else f"{seconds:.0f} s"
