"""The rooms that prefill ranks bound at this relay: answered from here, and forwarded to the control plane in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from controlplane.domain.rooms import RoomTable

from .records import Room, RoomsTaken


class RoomBook:
    """Bounded in number (the oldest go first) and in time. Times are seconds since the epoch."""

    def __init__(self, *, seconds: float = 360.0, most: int = 200_000) -> None:
        self._seconds, self._most = seconds, most
        self._table = RoomTable()
        # In the order in which they came. Those up to and with `taken` are known to the control plane.
        self._order: deque[Room] = deque()
        self._pending: deque[Room] = deque()
        self.taken = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def pending(self) -> int:
        return len(self._pending)

    def bind(self, room: Room, now: float) -> None:
        expires = int((room.at + self._seconds) * 1000)
        self._table.bind(room.room, room.dp, expires, int(now * 1000))
        self._order.append(room)
        self._pending.append(room)
        if len(self._order) > self._most:
            self._order.popleft()
            self._table.evict_oldest()
            self.dropped += 1
            if len(self._pending) > self._most:
                self._pending.popleft()

    def find(self, rooms: Iterable[int], now: float) -> dict[int, int]:
        return self._table.find_many(rooms, int(now * 1000))

    def next_pending(self, most: int, now: float) -> list[Room]:
        """The next to forward, oldest first, without those that are over."""
        while self._pending and self._pending[0].at + self._seconds <= now:
            self._pending.popleft()
        return [self._pending[n] for n in range(min(most, len(self._pending)))]

    def took(self, upto: int) -> RoomsTaken:
        """The control plane has those up to number `upto`."""
        self.taken = max(self.taken, upto)
        while self._pending and self._pending[0].n <= self.taken:
            self._pending.popleft()
        return RoomsTaken(self.taken)

    def sweep(self, now: float) -> None:
        while self._order and self._order[0].at + self._seconds <= now:
            self._order.popleft()
        self._table.sweep(int(now * 1000), 10_000)

    def records(self) -> Iterator[Room | RoomsTaken]:
        """All that must be written down to have it again."""
        yield from self._order
        yield RoomsTaken(self.taken)
