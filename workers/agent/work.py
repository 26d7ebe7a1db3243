"""What one request has open at an agent, and how it is ended early: by the client, by an operator, or at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.sdk import RoomInUse

from .asking import Failed, Request

Abort = Callable[[str], None]


class Work:
    """One request. `on_abort` is called at most once, by whoever aborts, even when it is handed in afterwards."""

    def __init__(self, request: Request, dp: int) -> None:
        self.request, self.dp = request, dp
        self.ended = ""
        self._lock = threading.Lock()
        self._aborts: list[Abort] = []

    def on_abort(self, abort: Abort) -> None:
        with self._lock:
            self._aborts.append(abort)
            late = self.ended
        if late:
            abort(late)

    def abort(self, why: str) -> None:
        with self._lock:
            if self.ended:
                return
            self.ended = why
            aborts = list(self._aborts)
        for abort in aborts:
            abort(why)

    def check(self) -> None:
        """Raises Failed (499) when it was aborted."""
        if self.ended:
            raise Failed(499, self.ended)


class Desk:
    """All requests of an agent: one a room, and how many there are in each DP group."""

    def __init__(self, dp_size: int) -> None:
        self._lock = threading.Lock()
        self._works: dict[int, Work] = {}
        self._next = 0
        self.dp_size = dp_size

    @contextmanager
    def work(self, request: Request, dp: int | None = None) -> Iterator[Work]:
        """`dp` None: each group in its turn. Raises RoomInUse: a room names one request."""
        with self._lock:
            if request.room in self._works:
                raise RoomInUse(f"room {request.room} is in use by another request; a new one must be taken for each")
            if dp is None:
                dp, self._next = self._next, (self._next + 1) % self.dp_size
            work = self._works[request.room] = Work(request, dp)
        try:
            yield work
        finally:
            with self._lock:
                del self._works[request.room]

    def at(self, room: int) -> Work | None:
        return self._works.get(room)

    def open_rooms(self) -> dict[int, int]:
        """How many, by DP rank; zeros too."""
        with self._lock:
            works = list(self._works.values())
        return {dp: sum(work.dp == dp for work in works) for dp in range(self.dp_size)}

    def abort(self, rid: str, why: str) -> int:
        """Those of this request id (all, if it is empty); how many that were."""
        with self._lock:
            found = [work for work in self._works.values() if not rid or work.request.rid == rid]
        for work in found:
            work.abort(why)
        return len(found)
