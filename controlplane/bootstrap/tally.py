"""Counts what comes through the doors. Plain integers that only grow: counting must cost the wire nothing."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.domain.waits import Waits
from controlplane.metrics.meters import Histogram
from controlplane.metrics.of_bootstrap import WAIT_BOUNDS

PATIENCE_SECONDS = 600.0
MOST_HOSTS = 10_000
"""How many waiting hosts are followed at once. Rooms are followed by `Lookups`."""


class Tally:
    """One a term, shared by both doors and all listeners."""

    __slots__ = (
        "beats",
        "hosts",
        "lookups",
        "misses",
        "polls",
        "publications",
        "refusals",
        "refused",
        "registrations",
        "rooms_answered",
        "rooms_asked",
        "took",
    )

    def __init__(self) -> None:
        self.lookups = 0
        """Reads of topology, ranks, rooms and engine info, whatever they found; polls of /health are not among them."""

        self.registrations = 0
        """`PUT /route` that could be read, also of ranks that are known."""

        self.publications = 0
        self.beats = 0
        self.refusals = 0
        """Requests that were refused with a sentence, on either wire; `refused` has them by the code."""

        self.refused: dict[str, int] = {}
        self.misses: dict[tuple[str, str], int] = {}
        """Look-ups that found nothing: what they asked for, and why it was not there."""

        self.polls: dict[int, int] = {}
        """Of /health of an instance, by the status that was told."""

        self.rooms_asked = 0
        self.rooms_answered = 0
        self.hosts = Waits(limit=MOST_HOSTS, patience=PATIENCE_SECONDS)
        """Hosts that asked for the topology of an instance (by name) which is not complete."""

        self.took = {"topology": Histogram(WAIT_BOUNDS), "room": Histogram(WAIT_BOUNDS)}

    def refuse(self, code: str) -> None:
        self.refusals += 1
        self.refused[code] = self.refused.get(code, 0) + 1

    def miss(self, what: str, why: str) -> None:
        self.misses[what, why] = self.misses.get((what, why), 0) + 1

    def let_go(self, now: float) -> None:
        """Of those who have waited for too long."""
        self.hosts.give_up(now)

    def topology_answered(self, instance: str, host: str, now: float) -> None:
        for seconds in self.hosts.answered(instance, {host}, now, together=True):
            self.took["topology"].observe(seconds)

    def asked_for_rooms(self, asked: int, answered: int, waits: Iterable[float]) -> None:
        """One request for so many rooms, how many of them are bound, and for how long those had been waited for."""
        self.rooms_asked += asked
        self.rooms_answered += answered
        for seconds in waits:
            self.took["room"].observe(seconds)
