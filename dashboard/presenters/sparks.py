"""Sparklines: a row of numbers as lines in a small box, from zero, with a gap where nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

MARGIN = 3.0
"""Room for the dot at the end, and for half a stroke at the top."""


@dataclass(frozen=True, slots=True)
class Spark:
    """`lines` are `points` of SVG polylines; `dot` is where the last number stands, None when it is not known."""

    width: int
    height: int
    lines: tuple[str, ...]
    dot: tuple[str, str] | None


def spark_of(values: Sequence[float | None], *, width: int = 72, height: int = 20) -> Spark:
    """Zero is the lower edge, the largest number the upper one.

    >>> spark_of([0, 5, 10], width=43, height=20).lines
    ('0.0,19.0 20.0,11.0 40.0,3.0',)
    >>> spark_of([4, 4, None, 2, None], width=43, height=20)
    Spark(width=43, height=20, lines=('0.0,3.0 10.0,3.0', '30.0,11.0 30.5,11.0'), dot=None)
    >>> spark_of([]).lines, spark_of([0, 0]).dot
    ((), ('69.0', '19.0'))
    """
    most = max((value for value in values if value is not None), default=0) or 1
    across = (width - MARGIN) / max(1, len(values) - 1)
    up = height - 1 - MARGIN

    def place(at: int, value: float) -> tuple[str, str]:
        return f"{at * across:.1f}", f"{height - 1 - up * value / most:.1f}"

    lines = []
    for known, run in groupby(enumerate(values), key=lambda one: one[1] is not None):
        if not known:
            continue
        places = [place(at, value) for at, value in run if value is not None]
        if len(places) == 1:
            # A line of one point is not drawn: a short one is.
            places.append((f"{float(places[0][0]) + 0.5:.1f}", places[0][1]))
        lines.append(" ".join(",".join(one) for one in places))
    last = values[-1] if values else None
    return Spark(width, height, tuple(lines), None if last is None else place(len(values) - 1, last))
