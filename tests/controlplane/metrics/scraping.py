"""Scrapes, as a Prometheus would read them."""

from __future__ import annotations

from collections.abc import Iterable

import httpx
from prometheus_client.parser import text_string_to_metric_families

from controlplane.metrics.exposition import render
from controlplane.metrics.metric import Sample

Labels = tuple[tuple[str, str], ...]


class Scrape:
    """The series of one answer: `value("name", label="x")`, `series("name")`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.values: dict[tuple[str, Labels], float] = {}
        for family in self.families.values():
            for name, labels, value, *_ in family.samples:
                if not name.endswith("_created"):
                    self.values[name, tuple(sorted(labels.items()))] = value

    @classmethod
    def of(cls, url: str, **headers: str) -> Scrape:
        answer = httpx.get(url, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return cls(answer.text)

    @classmethod
    def here(cls, samples: Iterable[Sample]) -> Scrape:
        """Of a collector in this process."""
        return cls(render(lambda: samples, process=False)[1].decode())

    def value(self, name: str, /, **labels: str) -> float:
        return self.values[name, tuple(sorted(labels.items()))]

    def get(self, name: str, /, **labels: str) -> float | None:
        return self.values.get((name, tuple(sorted(labels.items()))))

    def series(self, name: str) -> dict[Labels, float]:
        return {labels: value for (own, labels), value in self.values.items() if own == name}

    def grown_since(self, before: Scrape) -> dict[str, float]:
        """By how much each series is larger now, written as `name{a=b}`; what did not move is left out."""
        grown = {key: value - before.values.get(key, 0.0) for key, value in self.values.items()}
        return {_shown(*key): by for key, by in grown.items() if by}


def _shown(name: str, labels: Labels) -> str:
    return name + ("{" + ",".join(f"{key}={value}" for key, value in labels) + "}" if labels else "")
