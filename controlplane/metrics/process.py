"""What each process of ours tells of itself, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from controlplane.floodgate import FloodGate

from . import common
from .meters import Counts, Timings
from .metric import Sample

OUTGOING = Counts(common.OUTGOING, [(result,) for result in common.OUTGOING_RESULTS])
OUTGOING_SECONDS = Timings(common.OUTGOING_SECONDS)
"""Moved by `probes.outgoing`, through which every request to an address that somebody told us goes."""


def own(process: str) -> Iterator[Sample]:
    yield Sample(common.BUILD, 1, (_version(), process))
    yield Sample(common.SUPPRESSED, FloodGate.suppressed)
    yield from OUTGOING.samples()
    yield from OUTGOING_SECONDS.samples()


@cache
def _version() -> str:
    try:
        return version("pd-control-plane")
    except PackageNotFoundError:
        return "unknown"
