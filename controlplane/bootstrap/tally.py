"""Counts what comes through the doors. Plain integers that only grow: counting must cost the wire nothing."""

from __future__ import annotations


class Tally:
    """One a term, shared by both doors and all listeners."""

    __slots__ = ("lookups", "refusals", "registrations")

    def __init__(self) -> None:
        self.lookups = 0
        """Reads of topology, ranks, rooms and engine info, whatever they found; polls of /health are not among them."""

        self.registrations = 0
        """`PUT /route` that could be read, also of ranks that are known."""

        self.refusals = 0
        """Requests that were refused with a sentence, on either wire."""
