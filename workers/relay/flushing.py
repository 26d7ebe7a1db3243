"""`/health` of this relay: a decode drops what it cached of us when it is told twice that something changed. Pure.

As docs/wire.md says of the control plane, with one difference: what is not known here turns nothing.
"""

from __future__ import annotations

from collections.abc import Hashable

from controlplane.domain.health import CLOSED_COUNTS, Pollers


class Health:
    """`shown` is what look-ups were answered from last; `since`: 503 from then until everybody was told."""

    def __init__(self, *, since: float | None = None, polled_before: float | None = None) -> None:
        """`polled_before`: this relay ran before, and was restarted then; who polled it comes back on another connection."""
        self.pollers = Pollers(unknown_until=0.0 if polled_before is None else polled_before + CLOSED_COUNTS)
        self.since = since
        self._shown: Hashable | None = None

    @property
    def owes(self) -> bool:
        return self.since is not None

    @property
    def status(self) -> int:
        return 503 if self.owes else 200

    def serving(self, view: Hashable | None, *, now: float, forced: bool = False) -> bool:
        """What would be served now; None: nothing. `forced`: the control plane itself says 503. Whether `since` moved."""
        before = self.since
        changed = self._shown is not None and view != self._shown
        if (changed or forced) and self.since is None:
            self.since = now
        if view is not None:
            self._shown = view
        elif changed:
            self._shown = None
        if self.since is not None and view is not None and not forced and self.pollers.flush_is_over(self.since, now):
            self.since = None
        return before != self.since
