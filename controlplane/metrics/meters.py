"""Counters that cost almost nothing to move. Those of one thread are plain integers; `Counts` and `Timings` are shared."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence, Sized
from itertools import accumulate
from typing import Protocol

from .metric import Metric, Sample

MOST_SERIES = 2000
"""Of one metric in one process: what comes after is counted under `other`, so that nobody's input grows a scrape."""

OTHER = "other"


class Histogram:
    """How many values were at most each bound, and their sum. To observe costs a bisection and two additions.

    >>> took = Histogram((0.1, 1.0))
    >>> for seconds in (0.05, 0.1, 0.5, 7.0): took.observe(seconds)
    >>> took.cumulative(), round(took.total, 2)
    ([('0.1', 2), ('1.0', 3), ('+Inf', 4)], 7.65)
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        return list(zip((*map(str, map(float, self.bounds)), "+Inf"), accumulate(self.counts), strict=True))


class Counts:
    """A counter, by its labels; any thread may add. `known` labels stand at 0 from the beginning: a rate sees the first."""

    def __init__(self, metric: Metric, known: Iterable[tuple[str, ...]] = ()) -> None:
        self._metric = metric
        self._lock = threading.Lock()
        self._values: dict[tuple[str, ...], int] = dict.fromkeys(known if metric.labels else ((),), 0)

    def add(self, *labels: str, amount: int = 1) -> None:
        with self._lock:
            key = _bounded(self._values, labels)
            self._values[key] = self._values.get(key, 0) + amount

    def value(self, *labels: str) -> int:
        return self._values.get(labels, 0)

    def samples(self) -> Iterator[Sample]:
        with self._lock:
            values = list(self._values.items())
        return (Sample(self._metric, value, labels) for labels, value in values)


class Level:
    """How many there are now; any thread may move it."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._lock = threading.Lock()
        self._value = 0

    def move(self, by: int) -> None:
        with self._lock:
            self._value += by

    def samples(self) -> Iterator[Sample]:
        yield Sample(self._metric, self._value)


class Timings:
    """A histogram, by its labels; any thread may observe."""

    def __init__(self, metric: Metric, known: Iterable[tuple[str, ...]] = ()) -> None:
        self._metric = metric
        self._lock = threading.Lock()
        self._values = {labels: Histogram(metric.bounds) for labels in (known if metric.labels else ((),))}

    def observe(self, value: float, *labels: str) -> None:
        with self._lock:
            key = _bounded(self._values, labels)
            found = self._values.get(key)
            if found is None:
                found = self._values[key] = Histogram(self._metric.bounds)
            found.observe(value)

    def samples(self) -> Iterator[Sample]:
        with self._lock:
            values = [(labels, copied(histogram)) for labels, histogram in self._values.items()]
        return (Sample(self._metric, value, labels) for labels, value in values)


def copied(histogram: Histogram) -> Histogram:
    """As it stands now: a scrape reads it later, and its sum and counts shall belong together."""
    copy = Histogram(histogram.bounds)
    copy.counts, copy.total = list(histogram.counts), histogram.total
    return copy


class _Series(Container[tuple[str, ...]], Sized, Protocol): ...


def _bounded(series: _Series, labels: tuple[str, ...]) -> tuple[str, ...]:
    return labels if labels in series or len(series) < MOST_SERIES else (OTHER,) * len(labels)
