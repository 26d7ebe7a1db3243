"""How much was open since a drain began, as a short series that stays short however long the drain takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST = 48
STEP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Point:
    """`open`: the most that was seen in the step that begins at `at` (epoch seconds); None when nobody could say."""

    at: float
    open: int | None


@dataclass(frozen=True, slots=True)
class Trail:
    """Points `step` seconds apart. When there are too many, two become one and the step doubles."""

    step: float = STEP_SECONDS
    points: tuple[Point, ...] = ()

    def data(self) -> dict[str, Any]:
        return {"step": self.step, "points": [[round(point.at, 1), point.open] for point in self.points]}

    @staticmethod
    def read(data: Mapping[str, Any]) -> Trail:
        return Trail(data.get("step", STEP_SECONDS), tuple(Point(at, open) for at, open in data.get("points", ())))


def extend(trail: Trail, at: float, open: int | None) -> Trail:
    """
    >>> begun = extend(extend(Trail(), 0.0, 14), 1.0, 12)
    >>> [(point.at, point.open) for point in extend(begun, 3.0, 9).points]
    [(0.0, 14), (3.0, 9)]
    """
    points = trail.points
    if points and at - points[-1].at < trail.step:
        return Trail(trail.step, (*points[:-1], Point(points[-1].at, _more(points[-1].open, open))))
    points = (*points, Point(at, open))
    return Trail(trail.step * 2, _thinned(points)) if len(points) > MOST else Trail(trail.step, points)


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    pairs = [points[place : place + 2] for place in range(0, len(points), 2)]
    return tuple(Point(pair[0].at, _more(pair[0].open, pair[-1].open)) for pair in pairs)


def _more(one: int | None, other: int | None) -> int | None:
    """A peak never vanishes when points are put together."""
    known = [count for count in (one, other) if count is not None]
    return max(known, default=None)
