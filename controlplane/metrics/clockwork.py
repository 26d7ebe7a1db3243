"""The counters of a Celery worker."""

from __future__ import annotations

from collections.abc import Iterator

from . import of_clockwork as names
from .meters import Counts, Level, Timings
from .metric import Sample

TASKS = Counts(names.TASKS)
TASK_SECONDS = Timings(names.TASK_SECONDS)
RUNNING = Level(names.RUNNING)


def samples() -> Iterator[Sample]:
    for meter in (TASKS, TASK_SECONDS, RUNNING):
        yield from meter.samples()
