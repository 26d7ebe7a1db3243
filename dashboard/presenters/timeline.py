"""Launches on a line of time, as an SVG can draw them: x in percent, heights in pixels. As far as the rows tell."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from controlplane.queries.rows import LaunchRow, RankRow

MOST_TRACKS = 4
MOST_MARKS = 20
BARS = 14
LEFT, NOW = 7.0, 93.0
"""Where the line begins, and where now is, in percent of the width."""

NEEDED = 7.0
"""Percent of the width that a text takes."""

TRACK, BAND, TOP = 31, 20, 6
WINDOWS = ((120, 20), (300, 60), (900, 180), (3_600, 600), (21_600, 3_600), (86_400, 14_400), (604_800, 86_400))
"""Seconds that are shown, and seconds between two lines of the grid."""


@dataclass(frozen=True, slots=True)
class Span:
    x: float
    width: float
    tone: str
    text: str
    text_x: float


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Track:
    """One launch: spans of one state each, bars that rise while it fills, and marks where ranks left."""

    launch: LaunchRow
    y: int
    spans: tuple[Span, ...]
    bars: tuple[Bar, ...] = ()
    marks: tuple[float, ...] = ()

    @property
    def base(self) -> int:
        return self.y + 14

    @property
    def mark_y(self) -> int:
        return self.y - 3


@dataclass(frozen=True, slots=True)
class Line:
    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    lines: tuple[Line, ...]
    tracks: tuple[Track, ...]
    told: str
    now_x: float = NOW
    top: int = TOP
    band: int = BAND

    @property
    def bottom(self) -> int:
        return TOP + TRACK * len(self.tracks)

    @property
    def height(self) -> int:
        return self.bottom + 16

    @property
    def foot(self) -> int:
        return self.height - 3


@dataclass(frozen=True, slots=True)
class _Axis:
    start: float
    now: float
    every: int

    def x(self, at: float) -> float:
        share = (min(max(at, self.start), self.now) - self.start) / (self.now - self.start)
        return round(LEFT + share * (NOW - LEFT), 2)

    def lines(self) -> Iterator[Line]:
        at = self.start - self.start % self.every + self.every
        while at <= self.now:
            yield Line(self.x(at), _clock(at, self.every))
            at += self.every


@dataclass(slots=True)
class _Levels:
    """How many ranks counted, from one moment to the next."""

    launch: LaunchRow
    times: list[float]
    counts: list[int]
    came: list[float]
    left: list[float]

    def at(self, moment: float) -> int:
        passed = sum(time <= moment for time in self.times)
        return self.counts[passed - 1] if passed else 0


def timeline(launches: Sequence[LaunchRow], seats: Sequence[RankRow], *, now: float) -> Timeline | None:
    """The newest launches that were there in the time that is shown; None when there was none."""
    there = [launch for launch in launches if launch.ended_at is None]
    if not launches:
        return None
    gone = [rank.left_at for rank in seats if rank.left_at is not None]
    newest = max((launch.opened_at for launch in there or launches), default=now)
    axis = _axis(min([newest, *sorted(gone)[-1:]]), now)
    shown = [one for one in launches if one.ended_at is None or one.ended_at > axis.start][:MOST_TRACKS]
    tracks = tuple(_track(one, seats, axis, place) for place, one in enumerate(reversed(shown)))
    return Timeline(tuple(axis.lines()), tracks, _told(shown)) if tracks else None


def _axis(earliest: float, now: float) -> _Axis:
    wanted = (now - earliest) * 1.1
    seconds, every = next((window for window in WINDOWS if window[0] >= wanted), WINDOWS[-1])
    return _Axis(now - seconds, now, every)


def _track(launch: LaunchRow, seats: Sequence[RankRow], axis: _Axis, place: int) -> Track:
    y = TOP + TRACK * place
    if launch.ended_at is not None:
        return Track(launch, y, (_span(axis, launch.opened_at, launch.ended_at, "none", launch.state),))
    levels = _levels(launch, [rank for rank in seats if rank.launch == launch.number])
    bare = tuple(_spans(levels, axis))
    bars = tuple(_bars(levels, bare, axis, y))
    spans = tuple(_beside(span, bars) if span.tone == "busy" else span for span in bare)
    marks = tuple(dict.fromkeys(axis.x(at) for at in levels.left if at > axis.start))[-MOST_MARKS:]
    return Track(launch, y, spans, bars, marks)


def _beside(span: Span, bars: Sequence[Bar]) -> Span:
    """The text goes behind the bars, where there is room for it."""
    behind = max((bar.x + 0.5 for bar in bars), default=span.x)
    room = span.x + span.width - behind >= NEEDED
    return replace(span, text=span.text if room else "", text_x=round(behind + 0.8, 2))


def _levels(launch: LaunchRow, ranks: Sequence[RankRow]) -> _Levels:
    steps = [(rank.first_at, 1) for rank in ranks]
    steps += [(rank.left_at, -1) for rank in ranks if rank.left_at is not None]
    steps.sort()
    return _Levels(
        launch,
        [at for at, _ in steps],
        list(accumulate(change for _, change in steps)),
        sorted(rank.first_at for rank in ranks),
        sorted(rank.left_at for rank in ranks if rank.left_at is not None),
    )


def _spans(levels: _Levels, axis: _Axis) -> Iterator[Span]:
    """One span for each stretch of one tone; those too narrow to be seen go with the one before."""
    launch, size = levels.launch, levels.launch.expected
    begun, tone, count, whole = launch.opened_at, "busy", 0, False
    for at, level in [*zip(levels.times, levels.counts, strict=True), (axis.now, launch.registered)]:
        # Ranks that were replaced are not known any more: what was complete was whole, whatever the rows tell.
        whole = whole or level >= size or (launch.completed_at is not None and at > launch.completed_at)
        turned = "ok" if level >= size else "warn" if whole else "busy"
        if turned != tone and axis.x(at) - axis.x(begun) >= 0.4:
            yield _span(axis, begun, at, tone, f"{count} of {size}")
            begun = at
        tone, count = turned, level
    yield _span(axis, begun, axis.now, tone, f"{launch.registered} of {size}")


def _span(axis: _Axis, begun: float, ended: float, tone: str, text: str) -> Span:
    x, end = axis.x(begun), axis.x(ended)
    return Span(x, _width(x, end), tone, text if end - x >= NEEDED else "", round(x + 0.8, 2))


def _bars(levels: _Levels, spans: Sequence[Span], axis: _Axis, y: int) -> Iterator[Bar]:
    filling = next((span for span in spans if span.tone == "busy" and span.width >= 2), None)
    if filling is None or not levels.came:
        return
    # From the opening to the newest rank: after that nothing rises any more.
    first, last = max(levels.launch.opened_at, axis.start), levels.came[-1]
    for place in range(BARS):
        at = first + (last - first) * (place + 1) / BARS
        height = round(BAND * levels.at(at) / levels.launch.expected, 1)
        if height and axis.x(at) <= filling.x + filling.width:
            yield Bar(axis.x(at), round(y + BAND - height, 1), height)


def _width(x: float, end: float) -> float:
    return round(max(0.3, end - x), 2)


def _clock(at: float, every: int) -> str:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    if every >= 86_400:
        return f"{moment:%d %b}"
    return f"{moment:%H:%M}" if every >= 60 else f"{moment:%H:%M:%S}"


def _told(launches: Sequence[LaunchRow]) -> str:
    return " ".join(
        f"Launch {launch.number} opened at {_when(launch.opened_at)}, {launch.state}"
        + (f", {launch.registered} of {launch.expected} registered." if launch.ended_at is None else ".")
        for launch in reversed(launches)
    )


def _when(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%d %b %H:%M:%S} UTC"
