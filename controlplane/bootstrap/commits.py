"""What a recorder's transactions came to: how long they took, how much they stored, and how they failed."""

from __future__ import annotations

from controlplane.metrics.meters import Histogram
from controlplane.metrics.of_bootstrap import COMMIT_OPERATIONS, COMMIT_SECONDS

AWAY, UNKNOWN, BROKEN = "away", "unknown", "broken"


class Commits:
    """One a recorder; moved once a transaction, never once an operation."""

    __slots__ = ("failures", "not_stored", "sizes", "took")

    def __init__(self) -> None:
        self.took = Histogram(COMMIT_SECONDS.bounds)
        self.sizes = Histogram(COMMIT_OPERATIONS.bounds)
        self.failures = {AWAY: 0, UNKNOWN: 0, BROKEN: 0}
        self.not_stored = 0
        """Operations whose senders were told so."""

    def stored(self, operations: int, seconds: float) -> None:
        self.took.observe(seconds)
        self.sizes.observe(operations)

    def failed(self, why: str, *, not_stored: int = 0) -> None:
        self.failures[why] += 1
        self.not_stored += not_stored
