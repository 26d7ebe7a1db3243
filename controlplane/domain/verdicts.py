"""When most of what answered fails together, the fault is probably ours: a pause of verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from .contact import Contact
from .launch import Address

LEAST = 4
"""Fewer reachable ranks than this say nothing about a partition."""

FORGET_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Heard:
    """What one address answered last, and since when it fails (None while it answers)."""

    instance: int
    failing_since: float | None
    heard_at: float


class Jury:
    """Remembers who answered and who stopped. One instance that dies whole is ordinary; several at once, with more
    than half of everything that was reachable, are a cut cable on our side."""

    def __init__(self) -> None:
        self._heard: dict[Address, Heard] = {}

    def hear(self, instance: int, address: Address, contact: Contact, now: float) -> None:
        if contact is Contact.UP:
            self._heard[address] = Heard(instance, None, now)
            return
        known = self._heard.get(address)
        if known is not None:
            since = known.failing_since if known.failing_since is not None else now
            if now - since > FORGET_SECONDS:
                # Gone for good: no longer part of what could be reached.
                del self._heard[address]
            else:
                self._heard[address] = Heard(instance, since, now)

    def paused(self) -> bool:
        if len(self._heard) < LEAST:
            return False
        failing = [h for h in self._heard.values() if h.failing_since is not None]
        return 2 * len(failing) > len(self._heard) and len({h.instance for h in failing}) > 1

    def forget(self, keep: set[Address]) -> None:
        """Only what is still registered is part of the fleet."""
        for address in self._heard.keys() - keep:
            del self._heard[address]
