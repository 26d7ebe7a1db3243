"""What waits to be told of rooms: bounded, thinned by whole rooms while nobody takes it, failures kept and told first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from controlplane.domain.claims import PASSED
from controlplane.domain.reports import MAX_AGE_SECONDS, MAX_ITEMS, is_sampled

MOST = 80_000
"""About 25 MB. A minute of 300 rooms a second, at three rungs each, is kept whole."""

THIN_FROM = 0.75
MOST_BYTES = 950_000
ITEM_BYTES = 450
"""Of one item as JSON without its detail, at most; a report has at most 1 MiB."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One rung that one room reached, or failed at: `rung` is one of RUNGS; the result `passed` proves it, every other word
    is a failure. `at` by the clock of this process. `took`: seconds since its rung before, here."""

    room: int
    instance: str
    rung: str
    result: str
    at: float
    detail: str = ""
    launch_token: str = ""
    took: float | None = None

    @property
    def passed(self) -> bool:
        return self.result == PASSED

    def as_item(self, now: float) -> dict[str, object]:
        """JSON; rooms are text there, for they are beyond 2^53. Its age is of `now`, the moment in which it is sent."""
        age = min(max(now - self.at, 0.0), MAX_AGE_SECONDS)
        return {
            "room": str(self.room),
            "instance": self.instance,
            "rung": self.rung,
            "result": self.result,
            "age_seconds": round(age, 3),
            "detail": self.detail,
            "launch_token": self.launch_token,
            **({"took_seconds": round(min(self.took, MAX_AGE_SECONDS), 6)} if self.took is not None else {}),
        }


class Backlog:
    """Any number of threads add, one takes. At most `most` wait.

    While nobody takes them, a share of the rooms without a failure is kept, half of it at a time, so that what is left is
    spread over the whole absence and has all rungs of each room; it is the share that the control plane samples by.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._items: deque[Evidence] = deque()
        self._put_off = False
        self.share = 1.0
        """Of the rooms that are added now, those without a failure."""
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, one: Evidence) -> None:
        """Never waits for anybody who sends. When it is full the oldest goes, but no failure for the sake of what passed."""
        with self._lock:
            if one.passed and self.share < 1.0 and not is_sampled(one.room, self.share):
                self.dropped += 1
                return
            if len(self._items) >= self._most:
                self.dropped += 1
                if one.passed and not self._items[0].passed:
                    return
                self._items.popleft()
            self._items.append(one)

    def take(self, now: float) -> list[Evidence]:
        """What fits into one report, the oldest first; after an absence rooms with a failure come first, whole. What is older
        than a report may say is dropped."""
        if self._put_off and len(self._items) > MAX_ITEMS:
            self._rebuild(_failed_first)
        self._put_off = False
        batch: list[Evidence] = []
        size = 0
        with self._lock:
            while self._items and len(batch) < MAX_ITEMS:
                one = self._items[0]
                if now - one.at > MAX_AGE_SECONDS:
                    self._items.popleft()
                    self.dropped += 1
                    continue
                # Quotes and backslashes are two bytes each there.
                size += ITEM_BYTES + len(msgspec.json.encode(one.detail))
                if size > MOST_BYTES:
                    break
                batch.append(self._items.popleft())
            if not self._items:
                self.share = 1.0
        return batch

    def put_off(self) -> None:
        """Nobody takes anything now: make room before it is full."""
        self._put_off = True
        if len(self._items) >= THIN_FROM * self._most:
            self.share /= 2
            self._rebuild(lambda items: _thinned(items, self.share))

    def clear(self) -> int:
        """Give up all of it; how many."""
        with self._lock:
            gone = len(self._items)
            self._items.clear()
            self.dropped += gone
            self.share = 1.0
        return gone

    def _rebuild(self, anew: Callable[[list[Evidence]], list[Evidence]]) -> None:
        """Beside those who add: what they add meanwhile stands behind."""
        with self._lock:
            before, self._items = self._items, deque()
        kept = anew(list(before))
        with self._lock:
            kept = _without(kept, len(kept) + len(self._items) - self._most)
            self.dropped += len(before) - len(kept)
            self._items.extendleft(reversed(kept))


def _without(items: list[Evidence], over: int) -> list[Evidence]:
    """Without so many: the oldest that passed, and failures only where there is nothing else."""
    if over <= 0:
        return items
    passed = [place for place, one in enumerate(items) if one.passed][:over]
    gone = {*passed, *[place for place, one in enumerate(items) if not one.passed][: over - len(passed)]}
    return [one for place, one in enumerate(items) if place not in gone]


def _failed_rooms(items: Iterable[Evidence]) -> set[int]:
    return {one.room for one in items if not one.passed}


def _thinned(items: list[Evidence], share: float) -> list[Evidence]:
    failed = _failed_rooms(items)
    return [one for one in items if one.room in failed or is_sampled(one.room, share)]


def _failed_first(items: list[Evidence]) -> list[Evidence]:
    """They are in one report then, of which the control plane keeps all of a room that failed."""
    failed = _failed_rooms(items)
    return sorted(items, key=lambda one: one.room not in failed)
