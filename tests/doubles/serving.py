"""An aiohttp application on loopback, in a thread with an event loop of its own: what the doubles stand on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from aiohttp import web

from tests.support.ports import free_port

# The router tries gRPC first, and what aiohttp thinks of that fills pages.
logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)

Result = TypeVar("Result")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Started and stopped like a process; the port stays the same over a restart.

    Its state is plain attributes that any thread may set: the handlers read them when they are asked.
    """

    def __init__(self, *, port: int | None = None, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = port or free_port(host)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def routes(self, app: web.Application) -> None:
        raise NotImplementedError

    async def begun(self) -> None:
        """Runs in the loop, once it serves."""

    async def ending(self) -> None:
        """Runs in the loop, before it stops serving."""

    def start(self) -> Server:
        assert self._thread is None, "it runs already"
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()
        self.run(self._begin())
        return self

    def stop(self) -> None:
        """Every connection is closed; whoever asks then is refused."""
        if self._thread is None or self._loop is None:
            return
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._thread = self._loop = None

    def run(self, work: Coroutine[Any, Any, Result], *, within: float = 30) -> Result:
        """Run something in its loop, from any other thread, and wait for it."""
        assert self._loop is not None, "it does not run"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within)

    def __enter__(self) -> Any:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _begin(self) -> None:
        app = web.Application(client_max_size=16 * 2**20)
        self.routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port, reuse_address=True).start()
        await self.begun()

    async def _end(self) -> None:
        await self.ending()
        if self._runner is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._runner.cleanup(), 5)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
