"""One reader of the ledger per process and event loop, however many follow it: sockets, long polls, anybody.

It polls, sooner at a wake-up, keeps the latest events in memory, and lets everybody who follows read them at their own
pace. To follow costs no query.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.conf import settings

from . import position as positions
from .look import BATCH, Found, Looker
from .position import Position
from .tail import Cursor, EventRow
from .wake import wakes

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.25
SPACING_SECONDS = 0.015
"""Between two looks at least: under load one look brings the events of many commits."""

AWAY_SECONDS = 0.5
IDLE_SECONDS = 60.0
"""For how long the reader goes on when nobody follows any more."""

KEEP_EVENTS = 8192


class Replaced(Exception):
    """The ledger does not go on from this position, or not all that followed is in memory: begin with a snapshot.

    A restored backup, a failover, a compacted range; or a position too far behind.
    """


class Stand(enum.Enum):
    """How a position stands to what the hub has read."""

    LEVEL = enum.auto()
    BEHIND = enum.auto()
    AHEAD = enum.auto()
    ELSEWHERE = enum.auto()


class Follower:
    """A place in the ledger that moves on; made by `Hub.follow`."""

    def __init__(self, hub: Hub, position: Position) -> None:
        self._hub = hub
        self.move_to(position)

    def move_to(self, position: Position) -> None:
        self.position = position
        # Whoever took the position may have read the database after the hub did. Only a look that begins from now on
        # (the one in progress does not count) can say that a position ahead of the hub does not exist.
        self._sure_after = self._hub.looks + 2

    async def wait(self, seconds: float) -> bool:
        """Until there is something to take, `seconds` at most; whether there is."""
        return await self._hub.wait_until(self.has_news, seconds)

    def has_news(self) -> bool:
        stand = self._hub.stand(self.position)
        return stand in (Stand.BEHIND, Stand.ELSEWHERE) or self._is_from_the_future(stand)

    def take(self, limit: int = BATCH) -> list[EventRow]:
        """The next events, oldest first, without a gap; the position moves behind them. Raises Replaced."""
        stand = self._hub.stand(self.position)
        if stand is Stand.ELSEWHERE or self._is_from_the_future(stand):
            raise Replaced
        if stand is not Stand.BEHIND:
            return []
        events = self._hub.events_after(self.position.revision, limit)
        self.position = positions.after(self.position.ledger_id, events[-1])
        return events

    def _is_from_the_future(self, stand: Stand) -> bool:
        return stand is Stand.AHEAD and self._hub.looks >= self._sure_after


class Hub:
    """The reader. Starts with the first who asks, and ends by itself when nobody has for a while."""

    def __init__(self, *, redis_url: str) -> None:
        self._redis_url = redis_url
        self._events: deque[EventRow] = deque(maxlen=KEEP_EVENTS)
        self.position: Position | None = None
        self.looks = 0
        self.anew_at = 0.0
        """When (loop time) it last found a ledger that does not continue what it knew."""

        self.away = False
        """Whether the database did not answer when it was last asked."""
        self._looked = asyncio.Event()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._users = 0
        self._used_at = 0.0

    @property
    def head(self) -> Cursor | None:
        """How far it has read; None before the first look."""
        return self.position.cursor if self.position else None

    @contextlib.contextmanager
    def follow(self, position: Position) -> Iterator[Follower]:
        """Follow the ledger from `position` on while the block runs."""
        with self._used():
            yield Follower(self, position)

    async def wait_beyond(self, cursor: Cursor, seconds: float) -> None:
        """Until the ledger is not where `cursor` says: moved on, moved back, replaced; `seconds` at most."""
        with self.follow(Position(cursor.ledger_id, cursor.revision)) as follower:
            await follower.wait(seconds)

    async def known(self, seconds: float) -> Position | None:
        """The head as of a look; None when the database has not answered one within `seconds`."""
        with self._used():
            await self.wait_until(lambda: self.position is not None, seconds)
            return self.position

    async def wait_until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Until `true()`, which is asked after every look; whether it became so in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not true():
                    await self._looked.wait()
        return true()

    def stand(self, position: Position) -> Stand:
        head = self.position
        if head is None:
            return Stand.LEVEL
        if position.ledger_id != head.ledger_id:
            return Stand.ELSEWHERE
        if position.revision > head.revision:
            return Stand.AHEAD
        if position.revision == head.revision:
            return Stand.LEVEL if position.agrees_with(head.mark) else Stand.ELSEWHERE
        # The event at the position itself must be here too, to see that it is the same one.
        if not self._events or self._events[0].revision > max(position.revision, 1):
            return Stand.ELSEWHERE
        if position.revision and not position.agrees_with(positions.mark_of(self._event(position.revision))):
            return Stand.ELSEWHERE
        return Stand.BEHIND

    def events_after(self, revision: int, limit: int) -> list[EventRow]:
        last = min(self._events[-1].revision, revision + limit)
        return [self._event(number) for number in range(revision + 1, last + 1)]

    def _event(self, revision: int) -> EventRow:
        return self._events[revision - self._events[-1].revision - 1]

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        self._users += 1
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run(), name="ledger hub")
        try:
            yield
        finally:
            self._users -= 1
            self._used_at = loop.time()

    async def aclose(self) -> None:
        """End the reader; the next who asks starts it again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        looker = Looker()
        # A thread of its own, so that it is always the same connection.
        thread = ThreadPoolExecutor(1, thread_name_prefix="ledger-hub")
        ear = asyncio.create_task(wakes(self._redis_url, self._wake))
        try:
            await self._follow(looker, thread)
        finally:
            # Before anything is awaited: whoever asks from now on starts the next one.
            if self._task is asyncio.current_task():
                self._task = None
            ear.cancel()
            self.position = None
            self._events.clear()
            thread.submit(looker.close)
            thread.shutdown(wait=False)
            with contextlib.suppress(asyncio.CancelledError):
                await ear

    async def _follow(self, looker: Looker, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        self._used_at = loop.time()
        while self._users or loop.time() - self._used_at < IDLE_SECONDS:
            began = loop.time()
            self._wake.clear()
            try:
                found = await loop.run_in_executor(thread, looker.look, self.position)
            except Exception as problem:
                # Whatever it is, a reader that ends would leave everybody waiting for ever.
                if not self.away:
                    log.warning("ledger_not_readable", problem=type(problem).__name__)
                self.away = True
                await asyncio.sleep(AWAY_SECONDS)
                continue
            self._note(found)
            if found.more:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            await asyncio.sleep(max(0.0, began + SPACING_SECONDS - loop.time()))

    def _note(self, found: Found) -> None:
        if found.anew:
            self.anew_at = asyncio.get_running_loop().time()
            if self.position is not None:
                log.warning("ledger_replaced", before=str(self.position), now=str(found.head))
            self._events.clear()
        self._events.extend(found.events)
        self.position = found.head
        self.away = False
        self.looks += 1
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def hubs() -> list[Hub]:
    """All hubs of this process, for who looks from another thread."""
    return list(_hubs.values())


def hub() -> Hub:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None:
        found = _hubs[loop] = Hub(redis_url=settings.REDIS_URL)
    return found
