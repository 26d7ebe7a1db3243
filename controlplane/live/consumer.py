"""The consumer of `/ws/fleet`: lets in, tells, and closes with a code that says why."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError, InterfaceError

from controlplane.access.roles import Who
from controlplane.ledger.hub import hub
from controlplane.metrics.web import SOCKETS_ENDED

from . import door, topic
from .codes import Closed, Code
from .messages import encoder
from .snapshots import snapshots
from .sockets import sockets
from .stream import DATABASE_SECONDS, Stream
from .threads import asked
from .topic import Asked

log = structlog.get_logger(__name__)

AWAY = (DatabaseError, InterfaceError, TimeoutError)


class FleetConsumer(AsyncWebsocketConsumer):
    """One socket. It is accepted first and refused then: browsers show a close code, but not why a handshake failed."""

    # The process listens for all of its sockets together: see `notices`.
    channel_layer_alias = ""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._closed: Closed | None = None
        self._who: Who | None = None

    async def connect(self) -> None:
        await self.accept()
        try:
            sockets().add(self)
            self._asked = topic.read(self.scope["asked"])
        except Closed as closed:
            self.leave(closed)
        else:
            self._serving = self._start(self._serve(self._asked))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.leave(Closed(Code.BAD_REQUEST, "this stream takes no messages"))

    async def disconnect(self, code: int) -> None:
        sockets().remove(self)
        log.debug("socket_closed", source=self._source, code=code)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def leave(self, closed: Closed) -> None:
        """Tell nothing any more, and close. A client that takes nothing gets the code as soon as it does."""
        if self._closed is None:
            self._closed = closed
            SOCKETS_ENDED.add(str(int(closed.code)))
            log.info("socket_ended", source=self._source, code=int(closed.code), why=closed.sentence)
            if self._who is None:
                # Whoever was not let in takes no place while they say goodbye; whoever was has one until they are gone.
                sockets().remove(self)
            if self._serving is not None:
                self._serving.cancel()
            self._start(self._close(closed))

    def reconsider(self) -> None:
        self._start(self._reconsider())

    async def _serve(self, asked_for: Asked) -> None:
        try:
            who = await self._enter()
            log.info("socket_opened", source=self._source, who=who.name, instance=asked_for.topic.instance)
            stream = Stream(
                hub(), snapshots(), encoder(), asked_for, who.name, self.send, access_changed=sockets().look_soon
            )
            await stream.run()
        except Closed as closed:
            self.leave(closed)
        except AWAY:
            self.leave(Closed(Code.TRY_LATER, "the database does not answer; try again in a while"))
        except OSError:
            # The client is gone; the server says so too.
            return
        except Exception as problem:
            log.exception("socket_broken", problem=type(problem).__name__)
            self.leave(Closed(Code.BROKEN, "something failed here; connect again, with the last cursor"))

    async def _reconsider(self) -> None:
        try:
            await self._enter()
        except Closed as closed:
            self.leave(closed)
        except AWAY:
            # It stays unsure, and is closed if that lasts.
            return

    async def _enter(self) -> Who:
        async with asyncio.timeout(DATABASE_SECONDS):
            who = await asked(lambda: door.enter(self.scope, self._asked.topic))
        sockets().admit(self, who)
        self._who = who
        return who

    async def _close(self, closed: Closed) -> None:
        # OSError: the client is gone. RuntimeError: the server has closed it meanwhile, for a ping without an answer.
        with contextlib.suppress(OSError, RuntimeError):
            await self.close(code=int(closed.code), reason=closed.reason)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def _source(self) -> str:
        return str(self.scope["client"][0]) if self.scope.get("client") else ""


class NowhereConsumer(AsyncWebsocketConsumer):
    """Every other path."""

    channel_layer_alias = ""

    async def connect(self) -> None:
        await self.accept()
        await self.close(code=int(Code.NOT_FOUND), reason="there is no such stream; there is /ws/fleet")
