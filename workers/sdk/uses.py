"""Which requests use which rooms here: a room is one request's at a time, and late word of an earlier use is nobody's."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .errors import Overloaded, RoomInUse

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Use(Generic[Kept]):
    """One use of a room: the number alone may come again, room and attempt together never do in this process.

    `kept` is what the caller keeps for it (buffers, the request): it goes with the use.
    """

    room: int
    attempt: int
    dp: int | None = None
    kept: Kept | None = field(default=None, compare=False)


class Uses(Generic[Kept]):
    """The rooms in use, at most `most`. Any number of threads may share it."""

    def __init__(self, *, most: int = 1_000_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._now: dict[int, Use[Kept]] = {}
        self._attempts = 0
        self.late = 0
        """Words about uses that were over, which were ignored."""

    def __len__(self) -> int:
        return len(self._now)

    def begin(self, room: int, *, dp: int | None = None, kept: Kept | None = None) -> Use[Kept]:
        """Raises RoomInUse while another request uses it (a normal error of this request, none of the other), and
        Overloaded when too many are in use."""
        with self._lock:
            if room in self._now:
                raise RoomInUse(f"room {room} is in use by another request; a new one must be taken for each")
            if len(self._now) >= self._most:
                raise Overloaded(f"{self._most} rooms are in use already")
            self._attempts += 1
            use = self._now[room] = Use(room, self._attempts, dp, kept)
            return use

    def current(self, room: int) -> Use[Kept] | None:
        return self._now.get(room)

    def is_current(self, use: Use[Kept]) -> bool:
        return self._now.get(use.room) == use

    def end(self, use: Use[Kept]) -> bool:
        """It is over, done or failed: everything about it is forgotten. False for a use that was over already: then whoever
        uses the room now is left alone."""
        return self._ended(use.room, use.attempt)

    def failed(self, room: int, attempt: int) -> Use[Kept] | None:
        """A notice of failure came: the use it is about, which is over now; None for one that is not, or not any more."""
        use = self._now.get(room)
        return use if use is not None and self._ended(room, attempt) else None

    def _ended(self, room: int, attempt: int) -> bool:
        with self._lock:
            use = self._now.get(room)
            if use is None or use.attempt != attempt:
                self.late += 1
                return False
            del self._now[room]
            return True
