"""What one socket is told: a snapshot or what it missed, then everything as it is committed, at most ten times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from controlplane.ledger.hub import Follower, Hub, Replaced

from .codes import Closed, Code
from .messages import BEAT_SECONDS, Encoder, Pen
from .snapshots import Snapshots
from .topic import Asked

SPACING_SECONDS = 0.1
"""Between two messages about changes; what happens meanwhile is told together."""

SLOW_SECONDS = 5.0
"""For how long a message may wait until the client takes what was sent before it."""

DATABASE_SECONDS = 10.0
MOST_EVENTS = 1000
SNAPSHOT_SPACING_SECONDS = 1.0
REVOKED = "token.revoked"


@dataclass(slots=True)
class Stream:
    """One socket's way through the ledger. `tell` sends a text; `access_changed` is called when a token was revoked."""

    hub: Hub
    snapshots: Snapshots
    encoder: Encoder
    asked: Asked
    who: str
    tell: Callable[[str], Awaitable[None]]
    access_changed: Callable[[], None]
    _pen: Pen = field(init=False)
    _next_at: float = 0.0

    def __post_init__(self) -> None:
        self._pen = Pen(self.asked.topic)

    async def run(self) -> None:
        """Until cancelled. Raises Closed."""
        head = await self.hub.known(DATABASE_SECONDS)
        if head is None:
            raise Closed(Code.TRY_LATER, "the database does not answer; try again in a while")
        start = self.asked.after
        with self.hub.follow(start or head) as follower:
            told = start.revision if start else 0
            await self._send(self._pen.hello(head.cursor, who=self.who, told=told))
            if start is None:
                await self._begin_anew(follower, why="start")
            while True:
                await self._step(follower)

    async def _step(self, follower: Follower) -> None:
        loop = asyncio.get_running_loop()
        if not await follower.wait(BEAT_SECONDS):
            await self._send(self._pen.beat(follower.position, away=self.hub.away))
            return
        await asyncio.sleep(max(0.0, self._next_at - loop.time()))
        try:
            events = follower.take(MOST_EVENTS)
        except Replaced:
            await self._begin_anew(follower, why="replaced")
            await asyncio.sleep(SNAPSHOT_SPACING_SECONDS)
            return
        if any(event.kind == REVOKED for event in events):
            self.access_changed()
        told = [self.encoder.encode(event) for event in events if self.asked.topic.holds(event)]
        if told:
            await self._send(self._pen.events(follower.position, told))
            self._next_at = loop.time() + SPACING_SECONDS

    async def _begin_anew(self, follower: Follower, *, why: str) -> None:
        try:
            async with asyncio.timeout(DATABASE_SECONDS):
                picture = await self.snapshots.take(self.asked.topic, not_before=self.hub.anew_at)
        except Exception as problem:
            what = f"no snapshot could be taken ({type(problem).__name__}); try again in a while"
            raise Closed(Code.TRY_LATER, what) from problem
        for message in self._pen.snapshot(picture, why=why):
            await self._send(message)
        follower.move_to(picture.position)

    async def _send(self, message: str) -> None:
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await self.tell(message)
        except TimeoutError:
            sentence = f"what was sent was not taken for {SLOW_SECONDS:.0f} s: connect again, with the last cursor"
            raise Closed(Code.TOO_SLOW, sentence) from None
