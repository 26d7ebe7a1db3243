"""Room bindings: which DP rank serves a room, until exactly when, bounded in number.

Memory is the design here: a 63-bit integer takes CPython 48 bytes, a 60-bit one 32, so a table is split by the top
three bits; DP rank and expiry are one integer of at most 60 bits, and the order of expiry holds the keys themselves.
A dictionary that has just grown is half empty, so each part is split again, unequally: they grow one after another,
and a table of any size is about as full as another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .tombstones import Reuse, Tombstones

MAX_ROOM = 2**63 - 1
MAX_DP = 2**16 - 1
KEY_BITS = 60
KEY_MASK = (1 << KEY_BITS) - 1
SLICE_SHIFT = KEY_BITS - 4
# How many of the sixteen slices under each value of the top three bits are one shard: a third of a doubling apart.
SHARES = (3, 4, 4, 5)
SHARD_OF_SLICE = [top * len(SHARES) + n for top in range(8) for n, share in enumerate(SHARES) for _ in range(share)]
DP_BITS = 16
DP_MASK = (1 << DP_BITS) - 1
MAX_SHARED = 256
SWEPT_AT_ONCE = 4000
"""Bindings, when very many expire together: two milliseconds for which look-ups wait."""

NOTHING: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Collision:
    """A room that was bound to another rank while its first binding was alive. The last write won."""

    room: int
    before: int
    after: int


class _Shard:
    """Bindings whose rooms share their top bits, and the order in which they were made: the order of expiry."""

    __slots__ = ("bound", "order", "rebound", "tombstones", "top")

    def __init__(self, top: int, tombstones: Tombstones) -> None:
        self.top = top << KEY_BITS
        self.tombstones = tombstones
        self.bound: dict[int, int] = {}
        # The very objects that are keys in `bound`: one integer a room, not two.
        self.order: deque[int] = deque()
        # Keys that stand in `order` more than once, and how often too often.
        self.rebound: dict[int, int] = {}

    def add(self, key: int, packed: int) -> int | None:
        before = self.bound.get(key)
        self.bound[key] = packed
        self.order.append(key)
        if before is not None:
            self.rebound[key] = self.rebound.get(key, 0) + 1
            if len(self.order) > 2 * len(self.bound) + 1024:
                self._compact()
        return before

    def add_older(self, key: int, packed: int) -> None:
        if self.bound.setdefault(key, packed) is packed:
            self.order.appendleft(key)

    def sweep(self, now_ms: int, limit: int) -> int:
        gone = 0
        for _ in range(min(limit, len(self.order))):
            key = self.order[0]
            if not self._overtaken(key):
                if self.bound[key] >> DP_BITS > now_ms:
                    break
                self._bury(key)
                gone += 1
            self.order.popleft()
        return gone

    def evict_oldest(self) -> bool:
        while self.order:
            key = self.order.popleft()
            if not self._overtaken(key):
                self._bury(key)
                return True
        return False

    def _bury(self, key: int) -> None:
        self.tombstones.bury(self.top | key if self.top else key, self.bound.pop(key))

    def next_expiry_ms(self) -> int | None:
        while self.order and self._overtaken(self.order[0]):
            self.order.popleft()
        return self.bound[self.order[0]] >> DP_BITS if self.order else None

    def _overtaken(self, key: int) -> bool:
        """Whether this entry at the head has a later one behind it; takes it off the count if so."""
        extra = self.rebound.get(key)
        if extra is None:
            return False
        if extra == 1:
            del self.rebound[key]
        else:
            self.rebound[key] = extra - 1
        return True

    def _compact(self) -> None:
        last: dict[int, None] = {}
        for key in self.order:
            last.pop(key, None)
            last[key] = None
        self.order = deque(last)
        self.rebound.clear()


class RoomTable:
    """Live bindings of one instance. Times are milliseconds since the epoch, so that expiry is exact and packs."""

    __slots__ = ("_gets", "_shards", "_shared", "tombstones")

    def __init__(self) -> None:
        self.tombstones = Tombstones()
        # Rooms of one batch share expiry and often the DP rank: then they share the integer too.
        self._shared: dict[int, int] = {}
        self._shards: dict[int, _Shard] = {}
        self._gets: list[Callable[..., Any]] = [NOTHING.get] * len(SHARD_OF_SLICE)

    @property
    def count(self) -> int:
        return sum(len(shard.bound) for shard in self._shards.values())

    def bind(self, room: int, dp: int, expires_ms: int, now_ms: int) -> int | None:
        """Bind, last write wins. The DP rank it displaced, when that one was alive and another."""
        shared = self._shared
        packed = (expires_ms << DP_BITS) | dp
        packed = shared.setdefault(packed, packed)
        if len(shared) > MAX_SHARED:
            shared.clear()
        before = self._shard(room).add(room & KEY_MASK, packed)
        if before is None:
            return None
        if before >> DP_BITS <= now_ms:
            self.tombstones.bury(room, before)
            return None
        old = before & DP_MASK
        return old if old != dp else None

    def bind_older(self, room: int, dp: int, expires_ms: int) -> None:
        """A binding made before all that are here: it counts unless its room was bound again since."""
        packed = (expires_ms << DP_BITS) | dp
        self._shard(room).add_older(room & KEY_MASK, packed)

    def find(self, room: int, now_ms: int) -> int | None:
        """The DP rank of a live room; an expired one is unknown even before it is swept."""
        return self.find_many((room,), now_ms).get(room)

    def find_many(self, rooms: Iterable[int], now_ms: int) -> dict[int, int]:
        """Room → DP rank in the order asked; unknown and expired rooms are left out."""
        gets = self._gets
        alive = (now_ms << DP_BITS) | DP_MASK
        return {
            room: packed & DP_MASK
            for room in rooms
            if (packed := gets[room >> SLICE_SHIFT](room & KEY_MASK, 0)) > alive
        }

    def expiry_ms(self, room: int) -> int | None:
        packed = self._gets[room >> SLICE_SHIFT](room & KEY_MASK)
        return None if packed is None else packed >> DP_BITS

    def sweep(self, now_ms: int, limit: int, most: int = SWEPT_AT_ONCE) -> int:
        """Drop expired bindings from the heads, looking at no more than `limit` entries of each. How many went: not much
        more than `most`, and the other heads are the first next time."""
        gone = 0
        for number in list(self._shards):
            if gone >= most:
                break
            shard = self._shards[number] = self._shards.pop(number)
            gone += shard.sweep(now_ms, limit)
        return gone

    def evict_oldest(self) -> bool:
        """Drop the binding that expires first (bindings of one instance share one time to live)."""
        oldest = min(
            ((expiry, n) for n, shard in self._shards.items() if (expiry := shard.next_expiry_ms()) is not None),
            default=None,
        )
        return oldest is not None and self._shards[oldest[1]].evict_oldest()

    def _shard(self, room: int) -> _Shard:
        number = SHARD_OF_SLICE[room >> SLICE_SHIFT]
        shard = self._shards.get(number)
        if shard is None:
            shard = self._shards[number] = _Shard(number // len(SHARES), self.tombstones)
            for position, owner in enumerate(SHARD_OF_SLICE):
                if owner == number:
                    self._gets[position] = shard.bound.get
        return shard

    def next_expiry_ms(self) -> int | None:
        """When the oldest binding expires: what says which of several tables has it."""
        return min((e for shard in self._shards.values() if (e := shard.next_expiry_ms()) is not None), default=None)


class Rooms:
    """The tables of all instances under one bound on their number; and, for a while, what was bound before.

    `remembered`: so many rooms whose binding is over are recognised, and each for `remembered_ms` at least while they
    are fewer.
    """

    def __init__(self, *, limit: int, remembered: int = 100_000, remembered_ms: int = 120_000) -> None:
        self.limit = limit
        self.remembered = remembered
        self.remembered_ms = remembered_ms
        self.tables: dict[int, RoomTable] = {}
        self.evicted = 0
        self._fresh = 0
        self._turned_ms = 0

    def table(self, instance: int) -> RoomTable:
        table = self.tables.get(instance)
        if table is None:
            table = self.tables[instance] = RoomTable()
        return table

    @property
    def count(self) -> int:
        return sum(table.count for table in self.tables.values())

    def bind(self, instance: int, room: int, dp: int, expires_ms: int, now_ms: int) -> Collision | Reuse | None:
        table = self.table(instance)
        displaced = table.bind(room, dp, expires_ms, now_ms)
        if displaced is not None:
            return Collision(room, displaced, dp)
        over = table.tombstones.exhume(room)
        if over is None:
            return None
        ended = over >> DP_BITS
        return Reuse(room, over & DP_MASK, dp, ended, evicted=ended > now_ms)

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
        self._buried(gone)
        return gone

    def sweep(self, now_ms: int, limit: int = 500) -> int:
        gone = 0
        for instance in list(self.tables):
            if gone >= SWEPT_AT_ONCE:
                break
            table = self.tables[instance] = self.tables.pop(instance)
            gone += table.sweep(now_ms, limit, SWEPT_AT_ONCE - gone)
        self._buried(gone)
        if now_ms - self._turned_ms >= self.remembered_ms:
            self._turned_ms = now_ms
            self._turn()
        return gone

    def bury_older(self, over: Iterable[tuple[int, int, int, int]]) -> None:
        """Bindings (instance, room, DP rank, expiry) that were over before any that is here, newest first."""
        for instance, room, dp, expires_ms in over:
            table = self.table(instance)
            if self._fresh < self.remembered // 2 and table.expiry_ms(room) is None:
                self._fresh += table.tombstones.bury_older(room, (expires_ms << DP_BITS) | dp)

    def forget(self, instance: int) -> None:
        self.tables.pop(instance, None)

    def _buried(self, count: int) -> None:
        self._fresh += count
        if self._fresh > self.remembered // 2:
            self._turn()

    def _turn(self) -> None:
        self._fresh = 0
        for table in self.tables.values():
            table.tombstones.turn()
