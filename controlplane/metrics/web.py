"""The counters of a web process. Its parts never import each other, so what they all move stands here."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.domain.claims import RUNGS

from . import of_web as names
from .meters import Counts, Level, Timings
from .metric import Sample

REQUESTS = Counts(names.REQUESTS)
REQUEST_SECONDS = Timings(names.REQUEST_SECONDS, [(area,) for area in names.AREAS])
UNDER_WAY = Level(names.UNDER_WAY)
SOCKETS = Level(names.SOCKETS)
SOCKETS_ENDED = Counts(names.SOCKETS_ENDED, [(code,) for code in names.CODES])
REPORTED = Counts(names.REPORTED)
REPORTED_RUNGS = Counts(names.REPORTED_RUNGS, [(rung, how) for rung in RUNGS for how in ("passed", "failed")])
RUNG_SECONDS = Timings(names.RUNG_SECONDS, [(rung,) for rung in RUNGS])


def samples() -> Iterator[Sample]:
    for meter in (REQUESTS, REQUEST_SECONDS, UNDER_WAY, SOCKETS, SOCKETS_ENDED, REPORTED, REPORTED_RUNGS, RUNG_SECONDS):
        yield from meter.samples()
