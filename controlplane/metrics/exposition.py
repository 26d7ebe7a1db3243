"""A scrape's answer: samples in the text format of Prometheus, or of OpenMetrics for who asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from .meters import Histogram
from .metric import Collect, Kind, Metric, Sample

Answer = tuple[str, bytes]
"""Content type and body."""

_process = CollectorRegistry()
"""Memory, processor time and descriptors of this process, and its interpreter: what every Prometheus client tells."""

ProcessCollector(registry=_process)
PlatformCollector(registry=_process)
GCCollector(registry=_process)


def render(collect: Collect, accept: str = "", *, declared: Iterable[Metric] = (), process: bool = True) -> Answer:
    """`declared` stand in the answer even when there is nothing to say of them just now."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(list(collect()), declared))
    if process:
        registry.register(_Of(_process))
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


class _Of(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        yield from self._registry.collect()

    def describe(self) -> list[Family]:
        return []


class _Samples(Collector):
    def __init__(self, samples: Iterable[Sample], declared: Iterable[Metric]) -> None:
        self._by_metric: dict[Metric, list[Sample]] = {metric: [] for metric in declared}
        for sample in samples:
            self._by_metric.setdefault(sample.metric, []).append(sample)

    def collect(self) -> Iterator[Family]:
        for metric, samples in self._by_metric.items():
            family = _FAMILIES[metric.kind](metric.name, metric.says, labels=metric.labels)
            for sample in samples:
                _add(family, sample)
            yield family

    def describe(self) -> list[Family]:
        return []


_FAMILIES: dict[Kind, Any] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}


def _add(family: Any, sample: Sample) -> None:
    labels = [_harmless(value) for value in sample.labels]
    if isinstance(sample.value, Histogram):
        family.add_metric(labels, sample.value.cumulative(), sample.value.total)
    else:
        family.add_metric(labels, sample.value)


def _harmless(value: str) -> str:
    """Half of a surrogate pair can stand in a name that came as JSON, and in no answer: it would fail as a whole."""
    return value.encode("utf-8", "replace").decode()
