"""The relay's HTTP/1.1 server: keep-alive, whole bodies within limits, one answer after another. Nothing but asyncio.

What it reads is handed on as a Request; what cannot be read is answered and the connection closed (RFC 9112).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from controlplane.protocol.replies import Reply, text
from workers.sdk.line import Ended, Line, TooLong

log = logging.getLogger(__name__)

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 2**20
"""As SGLang's own server has it."""

TOO_LARGE = f"Maximum request body size {BODY_LIMIT} exceeded."

LARGE, MOST_LARGE = 64 * 1024, 64
"""So many bodies of more than so many bytes are read at once."""

IDLE_SECONDS = 90.0
BODY_SECONDS = 30.0
MOST_CONNECTIONS = 4096

_REQUEST = re.compile(rb"([A-Z]{1,20}) ([^\x00-\x20\x7f]{1,8192}) HTTP/1\.([01])")
_BARE = re.compile(rb"[\r\n\x00]")
"""What begins another line for somebody: it cannot be passed on."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}")

numbers = itertools.count(1)


class Unreadable(Exception):
    """The bytes are no request that could be answered otherwise than with `reply`."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.reply = text(status, sentence, close=True)


@dataclass(frozen=True, slots=True)
class Request:
    """`connection` names the connection, and is never used again; `peer` and `own` are its two ends, as (address, port)."""

    method: str
    path: str
    query: bytes
    headers: Mapping[bytes, bytes]
    body: bytes
    connection: int
    peer: tuple[str, int]
    own: tuple[str, int]


App = Callable[[Request], Awaitable[Reply]]


@dataclass(slots=True)
class Server:
    """All connections of one relay. `closed` is told of each connection that ends."""

    app: App
    closed: Callable[[int], None] = lambda number: None
    sessions: set[Session] = field(default_factory=set)
    listening: list[asyncio.Server] = field(default_factory=list)
    large: int = 0

    async def listen(self, host: str, port: int) -> int:
        """Raises OSError. The port that was bound."""
        server = await asyncio.get_running_loop().create_server(lambda: Session(self), host, port, backlog=512)
        self.listening.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def close(self, *, within: float = 2.0) -> None:
        """Take nobody new, answer what is under way, hang up."""
        for server in self.listening:
            server.close()
        tasks = [session.finish() for session in tuple(self.sessions)]
        if tasks:
            await asyncio.wait(tasks, timeout=within)
        for session in tuple(self.sessions):
            session.close()


class Session(Line):
    """One connection of a client."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self.number = next(numbers)
        self._task: asyncio.Task[None] | None = None
        self._answering = False
        self._ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._server.sessions) >= MOST_CONNECTIONS:
            self.close()
            return
        self._server.sessions.add(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.sessions.discard(self)
        self._server.closed(self.number)

    def finish(self) -> asyncio.Task[None]:
        """End after the answer that is under way, if any."""
        assert self._task is not None
        self._ending = True
        if not self._answering:
            self._task.cancel()
        return self._task

    async def _serve(self) -> None:
        try:
            while not self._ending:
                try:
                    request, keeps = await self._request()
                except Unreadable as problem:
                    self.write(raw(problem.reply, close=True))
                    break
                self._answering = True
                reply = await self._server.app(request)
                keeps = keeps and not reply.close and not self._ending
                self.write(raw(reply, close=not keeps, head_only=request.method == "HEAD"))
                self._answering = False
                async with asyncio.timeout(BODY_SECONDS):
                    await self.drain()
                if not keeps:
                    break
        except (Ended, TooLong, TimeoutError, ConnectionError, asyncio.CancelledError):
            pass
        except Exception:
            log.exception("a connection ended with an error of this relay")
        finally:
            if self._transport is not None:
                # What was written is sent first.
                self._transport.close()

    async def _request(self) -> tuple[Request, bool]:
        async with asyncio.timeout(IDLE_SECONDS):
            try:
                head = await self.until(b"\r\n\r\n", HEAD_LIMIT)
            except TooLong:
                raise Unreadable(431, f"the request line and headers are larger than {HEAD_LIMIT} bytes") from None
        method, target, headers, keeps = read_head(head)
        async with asyncio.timeout(BODY_SECONDS):
            body = await self._body(headers)
        path, _, query = target.partition("?")
        assert self._transport is not None
        peer, own = self._transport.get_extra_info("peername"), self._transport.get_extra_info("sockname")
        if peer is None or own is None:
            raise Ended
        return Request(method, path, query.encode("latin-1"), headers, body, self.number, _end(peer), _end(own)), keeps

    async def _body(self, headers: Mapping[bytes, bytes]) -> bytes:
        coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        if coding is not None:
            if length is not None or coding.lower() != b"chunked":
                raise Unreadable(400, "nobody can tell where this body ends")
            return await self._large(headers, self._chunks)
        if length is None:
            return b""
        if not _LENGTH.fullmatch(length):
            raise Unreadable(400, "content-length is no number")
        size = int(length)
        if size > BODY_LIMIT:
            raise Unreadable(413, TOO_LARGE)
        if size > LARGE:
            return await self._large(headers, lambda: self._exactly(size))
        self._invite(headers)
        return await self._exactly(size)

    async def _large(self, headers: Mapping[bytes, bytes], read: Callable[[], Awaitable[bytes]]) -> bytes:
        if self._server.large >= MOST_LARGE:
            raise Unreadable(503, "too many large bodies are being sent; try again")
        self._server.large += 1
        try:
            self._invite(headers)
            return await read()
        finally:
            self._server.large -= 1

    def _invite(self, headers: Mapping[bytes, bytes]) -> None:
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        held = 0
        while True:
            line = (await self.until(b"\r\n", 1024)).partition(b";")[0].strip()
            if not _SIZE.fullmatch(line):
                raise Unreadable(400, "a chunk does not say its size")
            size = int(line, 16)
            held += size
            if held > BODY_LIMIT:
                raise Unreadable(413, TOO_LARGE)
            if size == 0:
                while await self.until(b"\r\n", 8192) != b"\r\n":
                    pass
                return b"".join(parts)
            parts.append(await self._exactly(size))
            if await self.until(b"\r\n", 2) != b"\r\n":
                raise Unreadable(400, "a chunk is longer than it says")

    async def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = await self.some(size)
            if not part:
                raise Ended
            size -= len(part)
            parts.append(part)
        return b"".join(parts)


def read_head(head: bytes) -> tuple[str, str, dict[bytes, bytes], bool]:
    """Method, target, headers by lower-case name, and whether the connection is kept. Raises Unreadable.

    >>> read_head(b"GET /health HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    ('GET', '/health', {b'host': b'a'}, True)
    """
    lines = head.lstrip(b"\r\n").removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST.fullmatch(lines[0])
    if found is None:
        raise Unreadable(400, "this is no HTTP/1.1 request")
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name) or _BARE.search(value):
            raise Unreadable(400, "a header line cannot be read")
        key, told = name.lower(), value.strip(b" \t")
        if key in headers and key in (b"content-length", b"transfer-encoding", b"host") and headers[key] != told:
            raise Unreadable(400, f"{key.decode()} is said twice, and differently")
        headers.setdefault(key, told)
    said = headers.get(b"connection", b"").lower()
    keeps = b"close" not in said if found[3] == b"1" else b"keep-alive" in said
    target = found[2].decode("latin-1")
    if target.startswith(("http://", "https://")):
        # As a proxy is asked; the path is what counts.
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return found[1].decode(), target, headers, keeps


def raw(reply: Reply, *, close: bool, head_only: bool = False) -> bytes:
    more = reply.headers + (b"connection: close\r\n" if close else b"")
    if reply.status == 503:
        more += b"retry-after: 1\r\n"
    return b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b" % (
        reply.status,
        HTTPStatus(reply.status).phrase.encode() if reply.status in _KNOWN else b"Answer",
        reply.content_type,
        len(reply.body),
        more,
        b"" if head_only else reply.body,
    )


_KNOWN = {status.value for status in HTTPStatus}


def _end(name: tuple[object, ...]) -> tuple[str, int]:
    host, port = str(name[0]), int(str(name[1]))
    return host.removeprefix("::ffff:") if host.startswith("::ffff:") and "." in host else host, port
