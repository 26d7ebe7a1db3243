"""The charts of the activity page: which series are drawn together, in which unit, and what they say in words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlplane.queries.series import SeriesRows

from .ages import age_text
from .numbers import amount


@dataclass(frozen=True, slots=True)
class Line:
    """A series as it is drawn. `times` turns what is stored into the unit of its chart."""

    series: str
    label: str
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class Chart:
    key: str
    title: str
    unit: str
    lines: Sequence[Line]
    hint: str


CHARTS = (
    Chart(
        "lookups",
        "Look-ups",
        "a second",
        (Line("lookups", "look-ups"),),
        "Reads of topology, ranks, rooms and engine info. Polls of /health are not counted.",
    ),
    Chart(
        "bindings",
        "Rooms opened",
        "a second",
        (Line("bindings", "opened"),),
        "Bindings of a room to a DP rank. With follow_bootstrap_room nobody posts any.",
    ),
    Chart("rooms", "Rooms alive", "", (Line("rooms", "alive"),), "Bound and not yet expired: the most in each step."),
    Chart(
        "registrations",
        "Registrations",
        "a minute",
        (Line("registrations", "registrations", 60),),
        "PUT /route that could be read, also of ranks that were known already.",
    ),
    Chart(
        "refusals",
        "Failures",
        "a minute",
        (
            Line("refusals", "refused", 60),
            Line("collisions", "collided", 60),
            Line("unanswered", "unanswered", 60),
        ),
        "Requests refused with a sentence, rooms taken from another DP rank, probes that no rank answered.",
    ),
    Chart(
        "probes",
        "Probe latency",
        "ms",
        (Line("probe_p99_ms", "p99"), Line("probe_p50_ms", "p50")),
        "How long ranks took to greet: the highest in each step.",
    ),
)
SERIES = tuple(line.series for chart in CHARTS for line in chart.lines)


@dataclass(frozen=True, slots=True)
class LineView:
    """`data`: the numbers for the script, one a point, nothing where nothing is known."""

    label: str
    data: str
    now: str
    most: str
    most_at: float | None


@dataclass(frozen=True, slots=True)
class ChartView:
    chart: Chart
    lines: tuple[LineView, ...]
    rows: tuple[tuple[float, tuple[str, ...]], ...]
    """The table that says the same: when a step began, and a number a line."""

    @property
    def is_one(self) -> bool:
        return len(self.lines) == 1

    @property
    def label(self) -> str:
        """What the picture is, for whoever does not see it."""
        unit = f" {self.chart.unit}" if self.chart.unit else ""
        said = "; ".join(f"{line.label} now {line.now}{unit}, at most {line.most}" for line in self.lines)
        return f"{self.chart.title}{unit}: {said}. The table below has the numbers."


def charts_of(fine: SeriesRows, coarse: SeriesRows) -> tuple[ChartView, ...]:
    """Pictures from `fine`, tables from `coarse`; both hold every series of SERIES."""
    return tuple(_chart(chart, fine, coarse) for chart in CHARTS)


def _chart(chart: Chart, fine: SeriesRows, coarse: SeriesRows) -> ChartView:
    tables = [_scaled(coarse, line) for line in chart.lines]
    rows = tuple(
        (coarse.at(point), tuple(amount(numbers[point]) for numbers in tables)) for point in range(coarse.count)
    )
    return ChartView(chart, tuple(_line(line, fine) for line in chart.lines), rows[::-1])


def _line(line: Line, rows: SeriesRows) -> LineView:
    numbers = _scaled(rows, line)
    known = [(number, point) for point, number in enumerate(numbers) if number is not None]
    most = max(known, default=None)
    return LineView(
        line.label,
        ",".join("" if number is None else f"{number:.6g}" for number in numbers),
        amount(latest(numbers)),
        amount(most[0] if most else None),
        rows.at(most[1]) if most and most[0] > 0 else None,
    )


def _scaled(rows: SeriesRows, line: Line) -> tuple[float | None, ...]:
    return tuple(None if number is None else number * line.times for number in rows.values[line.series])


def latest(numbers: Sequence[float | None]) -> float | None:
    """The newest that is known: of the step that has just begun there may be none yet.

    >>> latest([1.0, 2.0, None]), latest([1.0, None, None]), latest([])
    (2.0, None, None)
    """
    return next((number for number in reversed(numbers[-2:]) if number is not None), None)


@dataclass(frozen=True, slots=True)
class Hole:
    """A time without samples."""

    at: float
    seconds: float

    @property
    def long(self) -> str:
        return age_text(self.seconds)


def holes(rows: SeriesRows) -> tuple[Hole, ...]:
    """Where samples are missing between the first and the last, the longest first."""
    return tuple(sorted(_holes(rows), key=lambda hole: -hole.seconds))


def _holes(rows: SeriesRows) -> Iterator[Hole]:
    known = [point for point, number in enumerate(rows.values["lookups"]) if number is not None]
    for before, after in itertools.pairwise(known):
        if after - before > 1:
            yield Hole(rows.at(before + 1), (after - before - 1) * rows.step)
