"""How much was open since a drain began, as bars in a box that is 78 px high; across in percent, from the cordon on."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.trail import Trail

LEFT, TOP, FLOOR = 6.0, 16, 72
WIDEST = 2.1
HALF_WAY = 50.2


@dataclass(frozen=True, slots=True)
class Bar:
    """`known` False: in this step nobody could say how much was open."""

    x: str
    width: str
    y: int
    height: int
    known: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """`until`: where the last room that is bound expires, None when no room is."""

    bars: tuple[Bar, ...]
    most: int
    first: int | None
    last: int | None
    now_x: str
    y: int
    until: float | None

    @property
    def gaps(self) -> bool:
        return not all(bar.known for bar in self.bars)


def chart_of(trail: Trail, *, since: float, now: float, until: float | None) -> Chart | None:
    """None when there is no point yet.

    >>> chart_of(Trail(), since=0, now=9, until=None) is None
    True
    """
    points = trail.points
    if not points:
        return None
    end = HALF_WAY if until is not None else 100.0
    across = (end - LEFT) / max(now - since, trail.step)
    width = min(WIDEST, max(0.3, trail.step * across * 0.8))
    most = max((point.open for point in points if point.open is not None), default=0)
    bars = []
    for point in points:
        x = LEFT + max(0.0, point.at - since) * across
        height = _height(point.open, most)
        bars.append(Bar(f"{min(x, end - width):.2f}%", f"{width:.2f}%", FLOOR - height, height, point.open is not None))
    last = points[-1].open
    return Chart(tuple(bars), most, points[0].open, last, f"{end:.1f}%", FLOOR - _height(last, most), until)


def _height(count: int | None, most: int) -> int:
    """Of what is open at least one pixel is seen."""
    if count is None:
        return 3
    return max(1, round((FLOOR - TOP) * count / most)) if count and most else 0
