"""Follows the ledger for the metrics: how many events of each kind, and how long what they end has taken.

Read when somebody scrapes, never otherwise: a term that nobody watches pays nothing for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec

from controlplane.domain.durations import DRAIN, READY, STEPS, UNHEALTHY, Durations
from controlplane.domain.fleetstate import KNOWN
from controlplane.metrics import of_bootstrap as names
from controlplane.metrics.meters import Histogram

from .loading import HEAD, rows

AT_ONCE = 20_000
MOST_PIECES = 10
"""Whoever scrapes once an hour catches up with so many events at a time; the rest is told the next time."""

COUNTS = """
SELECT kind, COUNT(*) FROM controlplane_event WHERE revision > %s AND revision <= %s GROUP BY kind"""
TOLD = f"""
SELECT kind, at, instance, data FROM controlplane_event
WHERE revision > %s AND revision <= %s AND kind IN ({", ".join(["%s"] * len(STEPS))}) ORDER BY revision"""
UNREADY = """
SELECT i.name, l.number, l.opened_at FROM controlplane_launch l JOIN controlplane_instance i ON i.id = l.instance_id
WHERE l.ended_at IS NULL AND l.completed_at IS NULL"""
IN_DEBT = "SELECT name, debt_since FROM controlplane_instance WHERE debt_since IS NOT NULL AND intent <> 'retired'"
UNDRAINED = "SELECT id, started_at FROM controlplane_drain WHERE ended_at IS NULL AND progress <> 'drained'"


@dataclass(frozen=True, slots=True)
class Told:
    """An event, as `Durations` reads it."""

    kind: str
    at: float
    instance: str
    data: dict[str, Any]


class Chronicle:
    """From `revision` on. Call it from threads; two at once take turns."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.kinds: Counter[str] = Counter(dict.fromkeys(KNOWN, 0))
        self.ready = Histogram(names.READY_SECONDS.bounds)
        self.unhealthy = Histogram(names.UNHEALTHY_SECONDS.bounds)
        self.drains = {how: Histogram(names.DRAIN_SECONDS.bounds) for how in ("drained", "forced", "cancelled")}
        self._durations: Durations | None = None
        self._turn = threading.Lock()

    def catch_up(self) -> int:
        """Count what was committed since. The ledger's head; raises what the database raises, and then counts nothing twice."""
        with self._turn:
            (head,) = rows(HEAD)[0]
            if self._durations is None:
                self._durations = _under_way()
            # A backup may have been restored under us: then there is nothing to count, until it grows again.
            self.revision = min(self.revision, head)
            for _ in range(MOST_PIECES):
                if self.revision == head:
                    break
                upto = min(self.revision + AT_ONCE, head)
                counts = rows(COUNTS, (self.revision, upto))
                told = rows(TOLD, (self.revision, upto, *STEPS))
                self.revision = upto
                self.kinds.update({kind: int(count) for kind, count in counts})
                events = [Told(kind, at, name, msgspec.json.decode(data)) for kind, at, name, data in told]
                for took in self._durations.follow(events):
                    self._of(took.what, took.how).observe(took.seconds)
            return int(head)

    def _of(self, what: str, how: str) -> Histogram:
        return {READY: self.ready, UNHEALTHY: self.unhealthy}.get(what) or self.drains[how]


def _under_way() -> Durations:
    begun = Durations()
    for name, number, at in rows(UNREADY):
        begun.begin(READY, name, number, at=at)
    for name, at in rows(IN_DEBT):
        begun.begin(UNHEALTHY, name, at=at)
    for id_, at in rows(UNDRAINED):
        begun.begin(DRAIN, id_, at=at)
    return begun
