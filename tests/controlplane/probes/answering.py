"""Real HTTP servers that answer as badly as a peer can, and count who came."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Heard:
    """Where it listens, and the requests (head and body) it read, as text."""

    port: int
    host: str = "127.0.0.1"
    requests: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def reply(head: str, body: bytes = b"") -> Answer:
    """One fixed answer; `head` without the length."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    return answer


async def endless(writer: asyncio.StreamWriter) -> None:
    """A body that never ends, as fast as it is read."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"4000\r\n" + bytes(0x4000) + b"\r\n")
        await writer.drain()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x-more: " + b"a" * 1000 + b"\r\n")
        await writer.drain()


async def drop_by_drop(writer: asyncio.StreamWriter) -> None:
    """Never silent for long, and never done."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(600)


async def garbage(writer: asyncio.StreamWriter) -> None:
    writer.write(b"SECRET-BANNER 220 smtp ready\r\n\r\n")
    await writer.drain()


@contextlib.asynccontextmanager
async def answering(
    answer: Answer, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Heard]:
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(x[15:]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")), 0)
            heard.requests.append((head + await reader.readexactly(length)).decode("latin-1"))
            await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    heard = Heard(server.sockets[0].getsockname()[1], host)
    try:
        yield heard
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
