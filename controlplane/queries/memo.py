"""What costs much and changes with the ledger alone, worked out once for all who ask at the same revision.

Nothing is kept for longer than a second: some of it changes with the clock, and not every column is in the ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from controlplane.ledger.tail import head

from .routable import Weighed, weigh

KEPT_SECONDS = 1.0

WAIT_SECONDS = 1.5
"""Whoever waits for another's answer holds a transaction open meanwhile, which PostgreSQL ends after two seconds idle."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    key: Hashable
    at: float
    value: T


class Memo(Generic[T]):
    """One value, by its key. Several threads that want the same at once work it out once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: _Kept[T] | None = None
        self._busy = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        asked = self._clock()
        found = self._fresh(key, asked)
        if found is not None:
            return found.value
        mine = self._busy.acquire(timeout=WAIT_SECONDS)
        try:
            found = self._fresh(key, asked) if mine else None
            if found is None:
                # Its age counts from before it was read.
                found = self._kept = _Kept(key, self._clock(), make())
            return found.value
        finally:
            if mine:
                self._busy.release()

    def forget(self) -> None:
        self._kept = None

    def _fresh(self, key: Hashable, asked: float) -> _Kept[T] | None:
        """Fresh when it was asked for: whoever waited until it was made takes it, however long that took."""
        kept = self._kept
        return kept if kept is not None and kept.key == key and asked - kept.at < KEPT_SECONDS else None


_WEIGHED: Memo[Weighed] = Memo()


def weighed(*, now: float) -> Weighed:
    """The whole fleet as of the snapshot that is read in. Call it inside one: two queries when it is known already."""
    at = head()
    return _WEIGHED.get((at.ledger_id, at.revision), lambda: weigh(now=now))


def forget() -> None:
    """For whoever changes tables behind the ledger's back: tests."""
    _WEIGHED.forget()
