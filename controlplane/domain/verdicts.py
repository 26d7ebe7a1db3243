"""When most of what answered fails together, the fault is probably ours: a pause of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .contact import Contact
from .launch import Address

LEAST = 4
"""Fewer reachable ranks than this say nothing about a partition."""

FORGET_SECONDS = 60.0

PANEL = 64
"""So many of a fleet of any size tell whether most of it fails."""

PANEL_LASTS = 1.0
"""Seconds before another one is asked."""

Candidates = list[tuple[Address, int]]
Choose = Callable[[Candidates, int], Candidates]


@dataclass(frozen=True, slots=True)
class Heard:
    """What one address answered last, and since when it fails (None while it answers)."""

    instance: int
    failing_since: float | None
    heard_at: float


class Jury:
    """Remembers who answered and who stopped. One instance that dies whole is ordinary; several at once, with more
    than half of everything that was reachable, are a cut cable on our side.

    A round of probes takes a while, and a death is sure within a third of a second. So, as soon as somebody stops, a
    panel of those that answered is asked at once: when most of them have stopped too, nobody need wait for the rest.
    """

    def __init__(self) -> None:
        self._heard: dict[Address, Heard] = {}
        # Counted as it hears: it is asked at every answer, and a large fleet is not walked for each of its ranks.
        self._failing: Counter[int] = Counter()
        self._panel: dict[Address, int] = {}
        self._summoned_at = float("-inf")

    def hear(self, instance: int, address: Address, contact: Contact, now: float) -> bool:
        """Take note of an answer; whether this one stopped just now."""
        known = self._heard.get(address)
        if contact is Contact.UP:
            self._note(address, Heard(instance, None, now))
            return False
        if known is None:
            return False
        since = known.failing_since if known.failing_since is not None else now
        # Gone for good: no longer part of what could be reached.
        self._note(address, None if now - since > FORGET_SECONDS else Heard(instance, since, now))
        return known.failing_since is None

    def summon(self, now: float, choose: Choose) -> dict[Address, int]:
        """Whom to ask at once, with their instances, now that somebody stopped; nobody while a panel is being asked."""
        if now - self._summoned_at < PANEL_LASTS or self.paused():
            return {}
        answering = [(address, heard.instance) for address, heard in self._heard.items() if heard.failing_since is None]
        self._summoned_at = now
        self._panel = dict(choose(answering, min(PANEL, len(answering))))
        return self._panel

    def paused(self) -> bool:
        if not self._failing:
            return False
        return self._most_fail(len(self._heard), self._failing) or self._most_fail(len(self._panel), self._of_panel())

    def forget(self, keep: set[Address]) -> None:
        """Only what is still registered is part of the fleet."""
        for address in self._heard.keys() - keep:
            self._note(address, None)

    @staticmethod
    def _most_fail(count: int, failing: Counter[int]) -> bool:
        return count >= LEAST and len(failing) > 1 and 2 * failing.total() > count

    def _of_panel(self) -> Counter[int]:
        heard = (self._heard.get(address) for address in self._panel)
        return Counter(each.instance for each in heard if each is not None and each.failing_since is not None)

    def _note(self, address: Address, heard: Heard | None) -> None:
        before = self._heard.pop(address, None)
        if before is not None and before.failing_since is not None:
            self._failing[before.instance] -= 1
            if not self._failing[before.instance]:
                del self._failing[before.instance]
        if heard is not None:
            self._heard[address] = heard
            if heard.failing_since is not None:
                self._failing[heard.instance] += 1
