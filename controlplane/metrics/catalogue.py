"""All metrics, by who tells them. What is exported, documented, drawn and alerted on is compared with this."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from . import common, of_bootstrap, of_clockwork, of_fleet, of_web
from .metric import Metric

PAGES: Mapping[str, ModuleType] = {
    "every process": common,
    "bootstrap": of_bootstrap,
    "web": of_web,
    "celery": of_clockwork,
    "fleet": of_fleet,
}


def declared(*modules: ModuleType) -> tuple[Metric, ...]:
    """All metrics of these modules, in the order in which they stand there."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Metric))


def every() -> tuple[Metric, ...]:
    return declared(*PAGES.values())
