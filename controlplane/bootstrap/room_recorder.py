"""Group commit of room bindings, appended to the journal; rooms never wait behind facts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from django.db import OperationalError

from controlplane.domain.rooms import Collision, Rooms
from controlplane.ledger.failures import FencedOut, OutcomeUnknown
from controlplane.ledger.store import RoomStore

from .breath import Breath
from .commits import AWAY, BROKEN, UNKNOWN, Commits
from .loading import load_rooms, load_rooms_over
from .steady import Steady

log = structlog.get_logger()

UNKNOWN_SECONDS = 4.0
RESTORED_AT_ONCE = 2000
MOST_COLLISIONS = 1000
MOST_REUSES = 200
"""So many are stored with one batch, the newest; all of them are counted."""

Bind = tuple[int, int, int]
"""Instance id, room, DP rank."""


class RoomRecorder:
    """Binds what is durable: look-ups see a room after its commit, never before."""

    def __init__(
        self,
        store: RoomStore,
        rooms: Rooms,
        *,
        ttl_seconds: float,
        fenced_out: Callable[[], None],
        pause_seconds: float = 0.0,
    ) -> None:
        self._store = store
        self._rooms = rooms
        self._ttl_ms = round(ttl_seconds * 1000)
        self._fenced_out = fenced_out
        self._breath = Breath(pause_seconds)
        self._thread = ThreadPoolExecutor(1, "rooms")
        self._pending: list[Bind] = []
        self._collisions: list[tuple[int, int, int, int, float]] = []
        self._reuses: list[tuple[int, int, int, int, str, float, float]] = []
        self._done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._arrived = asyncio.Event()
        # Look-ups wait for this: after a restart the directory answers first, rooms follow.
        self.loaded = asyncio.Event()
        self.token = 0
        self.collisions = 0
        self.reused = 0
        self.bound = 0
        self.expired = 0
        self.commits = Commits()
        # Bindings last as long as they should, whatever the host's clock is set to; what is stored goes by that one.
        self.clock = Steady()

    def bind(self, instance: int, room: int, dp: int) -> asyncio.Future[bool]:
        """Queue a binding; the future tells whether it is stored."""
        self._pending.append((instance, room, dp))
        self._arrived.set()
        return self._done

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            batch, self._pending = self._pending, []
            done, self._done = self._done, loop.create_future()
            collisions, self._collisions = self._collisions, []
            reuses, self._reuses = self._reuses, []
            now = time.time()
            expires_ms = round(now * 1000) + self._ttl_ms
            rows = [(instance, room, dp, expires_ms) for instance, room, dp in batch]
            lasts_until_ms = self.clock.ms() + self._ttl_ms
            began = time.monotonic()
            try:
                with self._breath.holding():
                    await self._append(rows, collisions, reuses)
            except OutcomeUnknown:
                # Neither yes nor no would be true.
                log.error("rooms_outcome_unknown", rooms=len(batch))
                self.commits.failed(UNKNOWN)
                done.cancel()
                continue
            except FencedOut:
                done.cancel()
                self._fenced_out()
                return
            except Exception as problem:
                log.warning("rooms_not_stored", rooms=len(batch), problem=str(problem)[:300])
                away = isinstance(problem, OperationalError)
                self.commits.failed(AWAY if away else BROKEN, not_stored=len(batch))
                self._collisions = collisions + self._collisions
                self._reuses = reuses + self._reuses
                done.set_result(False)
                continue
            self.commits.stored(len(batch), time.monotonic() - began)
            self._publish(batch, lasts_until_ms, now)
            done.set_result(True)
            if self._collisions or self._reuses:
                # They are stored with the next batch; if nobody comes, they are a batch of their own.
                self._arrived.set()
            await self._breath.take()

    async def _append(self, rows: list[tuple[int, int, int, int]], collisions: list[Any], reuses: list[Any]) -> None:
        """Append once; and again while nobody knows whether it was stored: twice in a journal does no harm."""
        loop = asyncio.get_running_loop()
        give_up = time.monotonic() + UNKNOWN_SECONDS
        unknown = False
        while True:
            try:
                await loop.run_in_executor(self._thread, self._store.append, self.token, rows, collisions, reuses)
                return
            except OutcomeUnknown:
                unknown = True
            except OperationalError:
                if not unknown:
                    raise
            if time.monotonic() > give_up:
                raise OutcomeUnknown
            await asyncio.sleep(0.1)

    async def keep_sample(self, sample: tuple[object, ...]) -> None:
        """Store one sample of the series, between two batches of rooms. Raises what the store does."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._store.keep_sample, self.token, sample)

    async def keep_lookups(self, rows: list[tuple[Any, ...]]) -> None:
        """Store who asked for which rooms, between two batches of them. Raises what the store does."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._store.keep_lookups, self.token, rows)

    def _publish(self, batch: list[Bind], expires_ms: int, now: float) -> None:
        now_ms, set_by = expires_ms - self._ttl_ms, self.clock.set_by
        rooms = self._rooms
        for instance, room, dp in batch:
            found = rooms.bind(instance, room, dp, expires_ms, now_ms)
            if found is None:
                continue
            if isinstance(found, Collision):
                self.collisions += 1
                self._collisions.append((instance, room, found.before, found.after, now))
            else:
                self.reused += 1
                over = "evicted" if found.evicted else "expired"
                self._reuses.append((instance, room, found.before, dp, over, found.expires_ms / 1000 + set_by, now))
        self.bound += len(batch)
        if rooms.count > rooms.limit:
            rooms.keep_bound()
        del self._collisions[:-MOST_COLLISIONS], self._reuses[:-MOST_REUSES]

    async def restore(self, read: Callable[..., Awaitable[Any]]) -> None:
        """Behind the directory, newest first, until the bound is reached; look-ups of rooms wait for it."""
        chunks = load_rooms()
        rooms = self._rooms
        while rooms.count < rooms.limit and (chunk := await read(next, chunks, None)) is not None:
            for start in range(0, len(chunk), RESTORED_AT_ONCE):
                for instance, room, dp, expires in chunk[start : start + RESTORED_AT_ONCE]:
                    rooms.table(instance).bind_older(room, dp, expires)
                await asyncio.sleep(0)
        rooms.keep_bound()
        self.loaded.set()
        # What was over shortly before is remembered as well; nobody waits for that.
        since_ms = round(time.time() * 1000) - rooms.remembered_ms
        over = await read(load_rooms_over, since_ms, rooms.remembered // 2)
        for start in range(0, len(over), RESTORED_AT_ONCE):
            rooms.bury_older(over[start : start + RESTORED_AT_ONCE])
            await asyncio.sleep(0)

    async def sweep_forever(self) -> None:
        """Free expired rooms a few at a time; they are not answered any more anyway."""
        while True:
            gone = self._rooms.sweep(self.clock.ms())
            self.expired += gone
            await asyncio.sleep(0.02 if gone else 0.5)

    def close(self) -> None:
        self._done.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
