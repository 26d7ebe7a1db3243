"""All open sockets of this process: how many there may be, and whether those who opened them still may."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Protocol

import structlog
from django.conf import settings

from controlplane.access import identity
from controlplane.access.revocation import groups_of
from controlplane.access.roles import Who
from controlplane.metrics.web import SOCKETS

from .codes import Closed, Code
from .loops import one_per_loop
from .notices import Notices
from .threads import asked

log = structlog.get_logger(__name__)

LOOK_SECONDS = 15.0
"""Between two looks at everybody's access; a notice makes it at once."""

BLIND_SECONDS = 40.0
"""For how long a socket stays open while nobody can tell whether it may."""

SPACING_SECONDS = 0.5
DATABASE_SECONDS = 10.0


class Socket(Protocol):
    """What the registry needs of a socket."""

    def reconsider(self) -> None:
        """Ask anew who this is, and close if they may not read this any more."""

    def leave(self, closed: Closed) -> None: ...


class Sockets:
    """The registry of one event loop."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._all: set[Socket] = set()
        self._who: dict[Socket, Who] = {}
        self._sure_at: dict[Socket, float] = {}
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._notices = Notices(self.look_soon)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, socket: Socket) -> None:
        """Raises Closed (4429)."""
        if len(self._all) >= self._limit:
            raise Closed(Code.TOO_MANY, f"{self._limit} sockets are open here, and no more are allowed")
        if socket not in self._all:
            SOCKETS.move(1)
        self._all.add(socket)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="live sockets")

    def admit(self, socket: Socket, who: Who) -> None:
        """`who` opened it, and may. One of them alone gets at most half of all sockets. Raises Closed (4429)."""
        if socket not in self._all:
            return
        known = self._who.get(socket)
        if known is None and self._of(who) >= max(1, self._limit // 2):
            raise Closed(
                Code.TOO_MANY, f"{who.name} has {self._of(who)} sockets open here, half of all that are allowed"
            )
        if known != who:
            self._notices.add(groups_of(who))
            if known is not None:
                self._notices.remove(groups_of(known))
        self._who[socket] = who
        self._sure_at[socket] = asyncio.get_running_loop().time()

    def remove(self, socket: Socket) -> None:
        if socket in self._all:
            SOCKETS.move(-1)
        self._all.discard(socket)
        self._sure_at.pop(socket, None)
        who = self._who.pop(socket, None)
        if who is not None:
            self._notices.remove(groups_of(who))

    def look_soon(self) -> None:
        self._look.set()

    def _of(self, who: Who) -> int:
        return sum(other.name == who.name for other in self._who.values())

    async def _watch(self) -> None:
        notices = asyncio.create_task(self._notices.run())
        try:
            while self._all:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._look.wait()
                self._look.clear()
                try:
                    await self._look_at_everybody()
                except Exception as problem:
                    # Nobody may stay for ever because one look went wrong.
                    log.exception("access_look_failed", problem=type(problem).__name__)
                await asyncio.sleep(SPACING_SECONDS)
        finally:
            if self._task is asyncio.current_task():
                self._task = None
            notices.cancel()

    async def _look_at_everybody(self) -> None:
        loop = asyncio.get_running_loop()
        began, sockets = loop.time(), dict(self._who)
        # Many sockets of one person or token are one question.
        people = list(Counter(sockets.values()))
        try:
            async with asyncio.timeout(DATABASE_SECONDS):
                stand = await asked(lambda: {who for who in people if identity.still(who)})
        except Exception as problem:
            log.warning("access_not_checked", problem=type(problem).__name__)
            self._close_the_unsure(loop.time())
            return
        for socket, who in sockets.items():
            if self._who.get(socket) is not who:
                continue
            if who in stand:
                self._sure_at[socket] = began
            else:
                socket.reconsider()

    def _close_the_unsure(self, now: float) -> None:
        for socket, sure_at in list(self._sure_at.items()):
            if now - sure_at > BLIND_SECONDS:
                socket.leave(Closed(Code.TRY_LATER, "nobody can tell any more whether you may read this; try again"))


@one_per_loop
def sockets() -> Sockets:
    """The registry of the running event loop."""
    return Sockets(limit=settings.PDCP_SOCKET_LIMIT)
