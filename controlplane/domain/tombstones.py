"""Rooms whose binding is over, remembered for a short while: so that whoever binds one late, or twice, is recognised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reuse:
    """A room that is bound once more although its binding was over: expired, or `evicted` before that."""

    room: int
    before: int
    after: int
    expires_ms: int
    evicted: bool


class Tombstones:
    """What was bound, by room, of one instance. Two halves: the older one goes as a whole, so that nothing need be timed.

    A room is remembered for at least one turn, and for two at most.
    """

    __slots__ = ("_older", "_young")

    def __init__(self) -> None:
        self._young: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._older)

    def bury(self, room: int, packed: int) -> None:
        self._young[room] = packed

    def bury_older(self, room: int, packed: int) -> bool:
        """What was over before all that are here, the newest first: the first word about a room counts, and was it?"""
        if room in self._young:
            return False
        self._young[room] = packed
        return True

    def exhume(self, room: int) -> int | None:
        """What was bound there last, once: it is forgotten with that."""
        found = self._young.pop(room, None)
        older = self._older.pop(room, None)
        return older if found is None else found

    def turn(self) -> None:
        self._older, self._young = self._young, {}
