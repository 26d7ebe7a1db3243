"""Follows who asked first for a room until it is told: for how long rooms are waited for, and evidence of their way, stored
every two seconds. Bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Sequence

import structlog

from controlplane.domain.reports import is_sampled
from controlplane.ledger.failures import FencedOut, OutcomeUnknown

from .room_recorder import RoomRecorder

log = structlog.get_logger()

EVERY_SECONDS = 2.0
AT_ONCE = 500
"""So many rooms that were answered at once are kept between two times; the wire is not slowed for more of them."""

MOST_WAITING = 50_000
"""Rooms that are followed at once: a few megabytes."""

MOST_ROWS = 10_000
"""So many are stored at a time; the wire is not slowed for more of them."""

UNANSWERED_SECONDS = 5.0
"""Whoever waits for longer is told of while it still waits."""

PATIENCE_SECONDS = 600.0

Key = tuple[int, int]
"""Instance id and room."""


class Lookups:
    """Rooms that had to be waited for come first; of those that were there, the share whose reports are kept."""

    __slots__ = ("_answered", "_every", "_quick", "_recorder", "_share", "_told_of", "_waiting", "given_up", "left_out")

    def __init__(self, recorder: RoomRecorder, *, share: float, every: float = EVERY_SECONDS) -> None:
        self._recorder, self._share, self._every = recorder, share, every
        # First asked at, and by whom; those that were told of as unanswered stand in a table of their own.
        self._waiting: dict[Key, tuple[float, str]] = {}
        self._told_of: dict[Key, tuple[float, str]] = {}
        self._answered: dict[tuple[int, int, str], tuple[float, float]] = {}
        self._quick = 0
        self.left_out = 0
        """Look-ups of which nothing is stored."""

        self.given_up = 0
        """Waits that ended without an answer, and those beyond what is followed at once."""

    @property
    def waiting(self) -> int:
        """Rooms that were asked for, and not told yet."""
        return len(self._waiting) + len(self._told_of)

    def asked(self, instance: int, source: str, rooms: Sequence[int], found: Container[int], now: float) -> list[float]:
        """One request of one host for some rooms of an instance. For how long those that are told now were waited for."""
        waiting, told_of = self._waiting, self._told_of
        waits: list[float] = []
        if self._quick >= AT_ONCE and not waiting and not told_of and all(room in found for room in rooms):
            self.left_out += len(rooms)
            return waits
        for room in rooms:
            key = (instance, room)
            if room not in found:
                if key in waiting or key in told_of:
                    continue
                if len(waiting) + len(told_of) < MOST_WAITING:
                    waiting[key] = (now, source)
                else:
                    self.left_out += 1
                    self.given_up += 1
                continue
            first = waiting.pop(key, None) or told_of.pop(key, None)
            if first is not None:
                waits.append(max(0.0, now - first[0]))
                if len(self._answered) < MOST_ROWS:
                    self._answered.setdefault((*key, first[1]), (first[0], now))
                else:
                    self.left_out += 1
            elif self._quick < AT_ONCE and is_sampled(room, self._share):
                self._quick += 1
                self._answered.setdefault((*key, source), (now, now))
            else:
                self.left_out += 1
        return waits

    def rows(self, now: float) -> list[tuple[int, int, float, str, float | None]]:
        """What is to be stored since the last time: answers, and whoever has waited for long."""
        rows: list[tuple[int, int, float, str, float | None]] = [
            (instance, room, at, source, told) for (instance, room, source), (at, told) in self._answered.items()
        ]
        self._answered.clear()
        self._quick = 0
        for key, (at, source) in list(self._waiting.items()):
            if now - at < UNANSWERED_SECONDS or len(rows) >= MOST_ROWS:
                break
            self._told_of[key] = self._waiting.pop(key)
            rows.append((*key, at, source, None))
        for key, (at, _) in list(self._told_of.items()):
            if now - at < PATIENCE_SECONDS:
                break
            del self._told_of[key]
            self.given_up += 1
        return rows

    async def run(self) -> None:
        """Until another process leads. What cannot be stored is left out: nobody waits for evidence."""
        while True:
            await asyncio.sleep(self._every)
            rows = self.rows(time.time())
            if not rows:
                continue
            try:
                await self._recorder.keep_lookups(rows)
            except FencedOut:
                return
            except OutcomeUnknown:
                log.warning("lookups_outcome_unknown")
            except Exception as problem:
                self.left_out += len(rows)
                log.warning("lookups_not_kept", problem=str(problem)[:300])
