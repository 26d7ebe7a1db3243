"""One metric as it is declared, and one value of it as a scrape takes it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Kind(enum.StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` as it is exported, its unit in it; `says` what it means, in a sentence that ends without a full stop.

    A counter ends in `_total` and only grows while its process lives. `bounds` are the upper bounds of a histogram.
    """

    name: str
    kind: Kind
    says: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Sample(NamedTuple):
    """`value` is a number, or a Histogram for a histogram; `labels` are values in the order of the metric's labels."""

    metric: Metric
    value: object
    labels: tuple[str, ...] = ()


Collect = Callable[[], Iterable[Sample]]
"""What a process has to say now. Called from a thread of the listener, never from the loop that serves."""


def counter(name: str, says: str, *labels: str) -> Metric:
    return Metric(f"{name}_total", Kind.COUNTER, says, labels)


def gauge(name: str, says: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, says, labels)


def histogram(name: str, says: str, *labels: str, bounds: tuple[float, ...]) -> Metric:
    return Metric(name, Kind.HISTOGRAM, says, labels, bounds)
