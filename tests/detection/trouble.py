"""What goes wrong beside the ranks: a database that takes its time."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

HELD_SECONDS, FREE_SECONDS = 0.2, 0.1


@contextlib.contextmanager
def held_again_and_again(database: Path) -> Iterator[None]:
    """Another writer has SQLite's only write lock for 200 ms at a time: a commit waits about as long."""
    over = threading.Event()

    def hold() -> None:
        other = sqlite3.connect(database, isolation_level=None, timeout=20)
        while not over.wait(FREE_SECONDS):
            other.execute("BEGIN IMMEDIATE")
            over.wait(HELD_SECONDS)
            other.execute("COMMIT")
        other.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        yield
    finally:
        over.set()
        holder.join()


class Slow:
    """A proxy in front of a server: once `delay` is set, every answer comes so many seconds later, in order."""

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.delay = 0.0
        self._server_port = server_port
        self._passing: set[asyncio.Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._listen())

    def close(self) -> None:
        self._call(self._hang_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _hang_up(self) -> None:
        self._server.close()
        for task in list(self._passing):
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        passing = asyncio.gather(self._pass(reader, server_writer), self._pass(server_reader, writer, late=True))
        self._passing.add(passing)
        with contextlib.suppress(asyncio.CancelledError):
            await passing
        self._passing.discard(passing)
        for each in (writer, server_writer):
            each.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, late: bool = False) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if late and self.delay:
                    await asyncio.sleep(self.delay)
                to.write(data)
                await to.drain()
        to.close()
