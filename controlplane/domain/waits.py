"""Who asked for what was not there yet, and how long until they were answered. Bounded in number and in time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set

GRACE_SECONDS = 10.0
"""For so long after the first answer of a group the others of it are waited for: who wants it has asked again by then."""

TRY_SECONDS = 1.0
"""When all places are taken, so seldom is looked for one that is over: it is looked for among all of them."""


class Waits:
    """Askers of a group (an instance), each by a key (a room, a host), since their first question without an answer.

    At most `limit` are followed at once: who comes when all places are taken is counted as given up, and so is whoever
    is not answered within `patience` seconds. Times are seconds of one clock.

    >>> waits = Waits(limit=10, patience=60.0)
    >>> waits.missed("p", ["room 7"], 100.0)
    >>> waits.answered("p", {"room 7", "room 8"}, 103.0), waits.count
    ([3.0], 0)
    """

    __slots__ = ("_ends_at", "_limit", "_patience", "_since", "_tried_at", "count", "given_up")

    def __init__(self, *, limit: int, patience: float) -> None:
        self._limit = limit
        self._patience = patience
        # In the order in which they first asked.
        self._since: dict[Hashable, dict[Hashable, float]] = {}
        self._ends_at: dict[Hashable, float] = {}
        self._tried_at = float("-inf")
        self.count = 0
        self.given_up = 0

    def __contains__(self, group: Hashable) -> bool:
        return group in self._since

    def missed(self, group: Hashable, keys: Iterable[Hashable], now: float) -> None:
        """They asked, and it was not there."""
        self._ends_at.pop(group, None)
        since = self._since.setdefault(group, {})
        for key in keys:
            if key in since:
                continue
            if self.count >= self._limit and not self._make_room(now):
                self.given_up += 1
                continue
            # Giving up may have taken the group itself away.
            since = self._since.setdefault(group, since)
            since[key] = now
            self.count += 1
        if not since:
            self._since.pop(group, None)

    def answered(self, group: Hashable, keys: Set[Hashable], now: float, *, together: bool = False) -> list[float]:
        """They asked, and were answered: for how long those that waited had to. `together`: what one of a group was told
        is there for all of it, so that nobody is waited for much longer."""
        since = self._since.get(group)
        if since is None:
            return []
        took = [max(0.0, now - since.pop(key)) for key in since.keys() & keys]
        self.count -= len(took)
        if not since:
            self._end(group)
        elif together and now >= self._ends_at.setdefault(group, now + GRACE_SECONDS):
            self.forget(group)
        return took

    def forget(self, group: Hashable) -> None:
        """Nobody will be answered there any more."""
        gone = len(self._since.get(group, ()))
        self.count -= gone
        self.given_up += gone
        self._end(group)

    def give_up(self, now: float) -> int:
        """Let go of whoever has waited for too long. How many went."""
        before = self.given_up
        for group, since in list(self._since.items()):
            if now >= self._ends_at.get(group, now + 1.0):
                self.forget(group)
                continue
            late = []
            for key, at in since.items():
                if now - at < self._patience:
                    break
                late.append(key)
            for key in late:
                del since[key]
            self.count -= len(late)
            self.given_up += len(late)
            if not since:
                self._end(group)
        return self.given_up - before

    def _make_room(self, now: float) -> bool:
        if 0 <= now - self._tried_at < TRY_SECONDS:
            return False
        self._tried_at = now
        return self.give_up(now) > 0

    def _end(self, group: Hashable) -> None:
        self._since.pop(group, None)
        self._ends_at.pop(group, None)
