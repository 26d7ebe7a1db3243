"""What the clients of a storm know: for every key, which values were acknowledged and which were in flight.

A key has one writer at a time, so its values have an order. After a crash it must hold the last acknowledged value or
one that was sent later; before anything was acknowledged it may be missing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

MISSING = object()


class History:
    """The values of one key, in the order in which they were sent."""

    __slots__ = ("acknowledged", "sent")

    def __init__(self) -> None:
        self.acknowledged: Any = MISSING
        self.sent: list[Any] = []

    def send(self, value: Any) -> None:
        self.sent.append(value)

    def acknowledge(self, value: Any) -> None:
        self.acknowledged = value
        self.sent.clear()

    def refuse(self, value: Any) -> None:
        """Answered, but not with yes: it must not have taken effect."""
        self.sent.remove(value)

    def allows(self, found: Any) -> bool:
        return found is self.acknowledged or found == self.acknowledged or found in self.sent

    def settle(self, found: Any) -> None:
        """What a restarted directory answers holds from now on: it was read, so it may not go away again."""
        self.acknowledged = found
        self.sent.clear()

    def __str__(self) -> str:
        known = "nothing" if self.acknowledged is MISSING else f"{self.acknowledged!r:.200}"
        return f"acknowledged {known}, in flight {self.sent!r:.200}"


class Book:
    """All keys of one kind."""

    def __init__(self) -> None:
        self.of: dict[Hashable, History] = {}
        self.acknowledged = 0

    def __getitem__(self, key: Hashable) -> History:
        return self.of.setdefault(key, History())

    def compare(self, key: Hashable, found: Any) -> str | None:
        """What is wrong with this value, as a sentence; a right one is noted as read."""
        history = self[key]
        if not history.allows(found):
            shown = "nothing" if found is MISSING else f"{found!r:.200}"
            return f"{key}: found {shown}; {history}"
        history.settle(found)
        return None
