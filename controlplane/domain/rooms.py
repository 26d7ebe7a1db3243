"""Room bindings: which DP rank serves a room, until exactly when, bounded in number.

Memory is the design here: 63-bit keys cost a CPython integer 48 bytes, 60-bit keys 32, so a table is split by the top
three bits; DP rank and expiry share one integer of at most 60 bits. About 115 bytes a room at two million rooms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

MAX_ROOM = 2**63 - 1
MAX_DP = 2**16 - 1
SHARD_SHIFT = 60
SHARD_MASK = (1 << SHARD_SHIFT) - 1
SHARDS = 8
DP_BITS = 16
DP_MASK = (1 << DP_BITS) - 1


@dataclass(frozen=True, slots=True)
class Collision:
    """A room that was bound to another rank while its first binding was alive. The last write won."""

    room: int
    before: int
    after: int


class RoomTable:
    """Live bindings of one instance. Times are milliseconds since the epoch, so that expiry is exact and packs."""

    __slots__ = ("_order", "_rebound", "_shards", "count")

    def __init__(self) -> None:
        self._shards: list[dict[int, int]] = [{} for _ in range(SHARDS)]
        self._order: deque[int] = deque()
        # Rooms that stand in _order more than once, and how often too often.
        self._rebound: dict[int, int] = {}
        self.count = 0

    def bind(self, room: int, dp: int, expires_ms: int, now_ms: int) -> int | None:
        """Bind, last write wins. The DP rank it displaced, when that one was alive and another."""
        shard = self._shards[room >> SHARD_SHIFT]
        key = room & SHARD_MASK
        before = shard.get(key)
        shard[key] = (expires_ms << DP_BITS) | dp
        self._order.append(room)
        if before is None:
            self.count += 1
            return None
        self._rebound[room] = self._rebound.get(room, 0) + 1
        if len(self._order) > 2 * self.count + 1024:
            self._compact()
        if before >> DP_BITS <= now_ms:
            return None
        old = before & DP_MASK
        return old if old != dp else None

    def find(self, room: int, now_ms: int) -> int | None:
        """The DP rank of a live room; an expired one is unknown even before it is swept."""
        packed = self._shards[room >> SHARD_SHIFT].get(room & SHARD_MASK)
        if packed is None or packed >> DP_BITS <= now_ms:
            return None
        return packed & DP_MASK

    def find_many(self, rooms: Iterable[int], now_ms: int) -> dict[str, int]:
        """Wire answer: `{"<room>": dp}` in the order asked, unknown rooms left out."""
        shards = self._shards
        found: dict[str, int] = {}
        for room in rooms:
            packed = shards[room >> SHARD_SHIFT].get(room & SHARD_MASK)
            if packed is not None and packed >> DP_BITS > now_ms:
                found[str(room)] = packed & DP_MASK
        return found

    def expiry_ms(self, room: int) -> int | None:
        packed = self._shards[room >> SHARD_SHIFT].get(room & SHARD_MASK)
        return None if packed is None else packed >> DP_BITS

    def sweep(self, now_ms: int, limit: int) -> int:
        """Drop expired bindings from the head, looking at no more than `limit` entries. How many went."""
        gone = 0
        for _ in range(min(limit, len(self._order))):
            room = self._order[0]
            if self._is_stale_entry(room):
                self._order.popleft()
                continue
            shard, key = self._shards[room >> SHARD_SHIFT], room & SHARD_MASK
            if shard[key] >> DP_BITS > now_ms:
                break
            self._order.popleft()
            del shard[key]
            self.count -= 1
            gone += 1
        return gone

    def evict_oldest(self) -> int | None:
        """Drop the binding that expires first (bindings of one instance share one time to live)."""
        while self._order:
            room = self._order.popleft()
            if self._is_stale_entry(room):
                continue
            del self._shards[room >> SHARD_SHIFT][room & SHARD_MASK]
            self.count -= 1
            return room
        return None

    def next_expiry_ms(self) -> int | None:
        """When the head expires: what says which of several tables has the oldest binding."""
        return self.expiry_ms(self._order[0]) if self._order else None

    def _is_stale_entry(self, room: int) -> bool:
        """Whether this entry at the head was overtaken by a later one; takes it off the count if so."""
        extra = self._rebound.get(room)
        if extra is None:
            return False
        if extra == 1:
            del self._rebound[room]
        else:
            self._rebound[room] = extra - 1
        return True

    def _compact(self) -> None:
        last: dict[int, None] = {}
        for room in self._order:
            last.pop(room, None)
            last[room] = None
        self._order = deque(last)
        self._rebound.clear()


class Rooms:
    """The tables of all instances under one bound on their number."""

    def __init__(self, *, limit: int) -> None:
        self.limit = limit
        self.tables: dict[int, RoomTable] = {}
        self.evicted = 0

    def table(self, instance: int) -> RoomTable:
        table = self.tables.get(instance)
        if table is None:
            table = self.tables[instance] = RoomTable()
        return table

    @property
    def count(self) -> int:
        return sum(table.count for table in self.tables.values())

    def bind(self, instance: int, room: int, dp: int, expires_ms: int, now_ms: int) -> Collision | None:
        displaced = self.table(instance).bind(room, dp, expires_ms, now_ms)
        return Collision(room, displaced, dp) if displaced is not None else None

    def keep_bound(self) -> int:
        """Evict oldest-expiring bindings until the bound holds again. How many went."""
        gone = 0
        excess = self.count - self.limit
        while gone < excess:
            full = [t for t in self.tables.values() if t.count]
            oldest = min(full, key=lambda table: table.next_expiry_ms() or 0)
            for _ in range(excess - gone if len(full) == 1 else 1):
                oldest.evict_oldest()
                gone += 1
        self.evicted += gone
        return gone

    def sweep(self, now_ms: int, limit: int = 2000) -> int:
        return sum(table.sweep(now_ms, limit) for table in self.tables.values())

    def forget(self, instance: int) -> None:
        self.tables.pop(instance, None)
