"""A small HTTP server in a thread of its own, which answers as it is told: well, badly, slowly or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from workers.sdk import Place

HANG = object()
"""Instead of an answer: accept, read, and never say anything."""

RESET = object()
"""Instead of an answer: cut the connection."""


@dataclass(frozen=True)
class Heard:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Said:
    """An answer with Content-Length. `slowly`: seconds between its bytes, head and all; `cut`: end after so many bytes."""

    status: int = 200
    body: bytes = b"OK"
    headers: dict[str, str] = field(default_factory=dict)
    slowly: float = 0.0
    cut: int | None = None
    after: float = 0.0
    unasked: bytes = b""
    """Sent behind the answer, as if it were the next one."""

    def raw(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} X", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body + self.unasked


def say(value: Any, status: int = 200, **more: Any) -> Said:
    return Said(status, json.dumps(value).encode(), {"Content-Type": "application/json"}, **more)


Answer = Callable[[Heard], Any]


class Server:
    """`answer(heard)` gives Said, raw bytes (after which the connection ends), HANG or RESET."""

    def __init__(self, answer: Answer, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.answer = answer
        self.heard: list[Heard] = []
        self.connections = 0
        self.most_at_once = 0
        self._at_once = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, host, port))
        self.host, self.port = self._server.sockets[0].getsockname()[:2]
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def place(self) -> Place:
        return Place(self.host, self.port)

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.heard]

    def cut_idle(self) -> None:
        """Close every connection that there is, as a server does with idle ones."""

        async def cut() -> None:
            for writer in self._writers:
                writer.close()

        self._do(cut())

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._do(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        number = self.connections
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await self._one(reader, writer, number):
                    pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await _body(reader, headers)
        heard = Heard(method, path, headers, body, number)
        self.heard.append(heard)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self._say(writer, self.answer(heard))
        finally:
            self._at_once -= 1

    async def _say(self, writer: asyncio.StreamWriter, answer: Any) -> bool:
        if answer is HANG:
            await asyncio.sleep(3600)
        if answer is RESET:
            return _reset(writer)
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
            return False
        await asyncio.sleep(answer.after)
        raw = answer.raw()
        if answer.cut is not None:
            writer.write(raw[: answer.cut])
            await writer.drain()
            return _reset(writer)
        if not answer.slowly:
            writer.write(raw)
            await writer.drain()
            return True
        for at in range(len(raw)):
            writer.write(raw[at : at + 1])
            await writer.drain()
            await asyncio.sleep(answer.slowly)
        return True


def _reset(writer: asyncio.StreamWriter) -> bool:
    # What was written must leave before the connection is cut.
    writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
    return False


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        parts = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)
    return await reader.readexactly(int(headers.get("content-length", 0)))


@contextlib.contextmanager
def serving(answer: Answer, **where: Any) -> Iterator[Server]:
    server = Server(answer, **where)
    try:
        yield server
    finally:
        server.close()
