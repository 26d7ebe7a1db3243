"""Pages or metadata slots of a rank: free, taken, or in quarantine because a transfer may still write into them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Sequence

from workers.transfer.errors import NothingFree


class Stock:
    """Numbers from 0 to `size` − 1. What was freed longest ago is taken first, so a late write has the longest time to show.

    >>> pages = Stock(3, "KV pages")
    >>> pages.take(2), pages.free
    ((0, 1), 1)
    >>> pages.hold("room 7", (0, 1)); pages.free, pages.held
    (1, 2)
    >>> pages.settle("room 7"); pages.free, pages.held
    (3, 0)
    """

    def __init__(self, size: int, what: str) -> None:
        self.size, self._what = size, what
        self._free: deque[int] = deque(range(size))
        self._taken: set[int] = set()
        self._held: dict[Hashable, set[int]] = {}
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def taken(self) -> int:
        """How many are in use."""
        return len(self._taken)

    @property
    def held(self) -> int:
        """How many are in quarantine."""
        return sum(map(len, list(self._held.values())))

    def take(self, count: int = 1) -> tuple[int, ...]:
        """All or nothing; raises NothingFree, whose text says how many wait in quarantine."""
        with self._lock:
            if count > len(self._free):
                raise NothingFree(
                    f"{count} {self._what} were asked for, {len(self._free)} of {self.size} are free and "
                    f"{sum(map(len, self._held.values()))} are in quarantine"
                )
            found = tuple(self._free.popleft() for _ in range(count))
            self._taken.update(found)
            return found

    def give_back(self, items: Iterable[int]) -> None:
        with self._lock:
            self._put(items)

    def hold(self, key: Hashable, items: Sequence[int]) -> None:
        """Take them out of use until `settle(key)` or `settle_all`."""
        with self._lock:
            self._check(items)
            self._taken.difference_update(items)
            self._held.setdefault(key, set()).update(items)

    def settle(self, key: Hashable) -> None:
        """Nothing writes into what `key` holds any more: it is free again. Unknown keys hold nothing."""
        with self._lock:
            self._free.extend(sorted(self._held.pop(key, ())))

    def settle_all(self) -> None:
        with self._lock:
            for key in list(self._held):
                self._free.extend(sorted(self._held.pop(key)))

    def _put(self, items: Iterable[int]) -> None:
        given = list(items)
        self._check(given)
        self._taken.difference_update(given)
        self._free.extend(given)

    def _check(self, items: Sequence[int]) -> None:
        if not self._taken.issuperset(items) or len(set(items)) != len(items):
            raise ValueError(f"{self._what} {sorted(set(items) - self._taken)} are not taken, or named twice")
