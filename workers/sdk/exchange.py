"""One request and its answer on one connection: sent while listening, read within its limits of bytes and silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from . import http11
from .errors import BadAddress, TooLarge
from .line import BUFFER_LIMIT, Ended, Line
from .places import Place

ANSWER_LIMIT = 4 * 2**20
SMALL_BODY = 64 * 1024
MOST_INTERIM = 8
MOST_TRAILERS = 100


class Silent(Exception):
    """Nothing came for as long as the request allows."""


Parts = Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. A body in parts is made anew for each try and sent chunked. `most`: bytes of the answer's body.

    `fresh`: on a connection of its own, so that it is never sent twice unknowingly. `stall`: seconds without a byte after
    which the peer is given up before the whole bound is over.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Parts | None = None
    most: int = ANSWER_LIMIT
    fresh: bool = False
    stall: float | None = None

    @property
    def shown(self) -> str:
        """Method and path without its query: a sentence needs no numbers of ranks."""
        return f"{self.method} {self.path.partition('?')[0][:100]}"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


async def exchange(place: Place, ask: Ask, line: Line) -> tuple[Answer, bool]:
    """Send `ask`, read the whole answer; whether the connection may be used again.

    Raises BadAddress, TooLarge, Silent, Ended, TooLong, http11.Unreadable.
    """
    head, whole = await _sent_and_heard(place, ask, line)
    body = await _body(place, ask, line, head)
    return Answer(head.status, head.headers, body), whole and head.keeps


async def _sent_and_heard(place: Place, ask: Ask, line: Line) -> tuple[http11.Head, bool]:
    """The answer's head, and whether the whole request was sent before it came."""
    plain = ask.body is None or isinstance(ask.body, bytes)
    length = len(ask.body) if isinstance(ask.body, bytes) else None
    try:
        head = http11.request_head(
            ask.method, place.prefix + ask.path, place.authority, ask.headers, length=length, chunked=not plain
        )
    except (ValueError, UnicodeEncodeError) as problem:
        raise BadAddress(f"{ask.shown} cannot be sent: {problem}") from None
    if isinstance(ask.body, bytes) and len(ask.body) <= SMALL_BODY:
        line.write(head + ask.body)
        return await _head(ask, line), True
    line.write(head)
    if ask.body is None:
        return await _head(ask, line), True
    return await _sent_while_heard(ask, line)


async def _sent_while_heard(ask: Ask, line: Line) -> tuple[http11.Head, bool]:
    """A server may refuse before all is sent, and stop reading: listen while sending."""
    sending, hearing = asyncio.ensure_future(_send(ask, line)), asyncio.ensure_future(_head(ask, line))
    both = {sending, hearing}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        failed = sending.exception() if sending.done() else None
        # Its answer may have come before it closed; what the body's own maker raises is no answer at all.
        if failed is not None and not isinstance(failed, (Ended, ConnectionError)):
            raise failed
        return await hearing, sending.done() and sending.exception() is None
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)
        for task in both:
            if not task.cancelled():
                task.exception()


async def _send(ask: Ask, line: Line) -> None:
    if isinstance(ask.body, bytes):
        for start in range(0, len(ask.body), BUFFER_LIMIT):
            line.write(ask.body[start : start + BUFFER_LIMIT])
            await line.drain()
        return
    assert ask.body is not None
    for part in ask.body():
        if part:
            line.write(http11.as_chunk(part))
            await line.drain()
    line.write(http11.as_chunk(b""))


async def _head(ask: Ask, line: Line) -> http11.Head:
    for _ in range(MOST_INTERIM):
        async with _stall(ask, line):
            raw = await line.until(b"\r\n\r\n", http11.HEAD_LIMIT)
        head = http11.read_head(raw, method=ask.method)
        if head.status >= 200:
            return head
    raise http11.Unreadable("nothing but interim answers")


async def _body(place: Place, ask: Ask, line: Line, head: http11.Head) -> bytes:
    too_large = TooLarge(f"the answer of {place} to {ask.shown} is larger than {ask.most} bytes")
    if head.length is not None and head.length > ask.most:
        raise too_large
    parts: list[bytes] = []
    held = 0
    async for part in _parts(ask, line, head):
        held += len(part)
        if held > ask.most:
            raise too_large
        parts.append(part)
    return b"".join(parts)


async def _parts(ask: Ask, line: Line, head: http11.Head) -> AsyncIterator[bytes]:
    if head.chunked:
        while size := http11.chunk_size(await _line(ask, line)):
            async for part in _exactly(ask, line, size):
                yield part
            if await _line(ask, line) != b"\r\n":
                raise http11.Unreadable("a chunk is longer than it says")
        for _ in range(MOST_TRAILERS):
            if await _line(ask, line) == b"\r\n":
                return
        raise http11.Unreadable("its trailer does not end")
    elif head.length is not None:
        async for part in _exactly(ask, line, head.length):
            yield part
    else:
        while True:
            async with _stall(ask, line):
                part = await line.some(BUFFER_LIMIT)
            if not part:
                return
            yield part


async def _exactly(ask: Ask, line: Line, count: int) -> AsyncIterator[bytes]:
    while count:
        async with _stall(ask, line):
            part = await line.some(min(count, BUFFER_LIMIT))
        if not part:
            raise Ended
        count -= len(part)
        yield part


async def _line(ask: Ask, line: Line) -> bytes:
    async with _stall(ask, line):
        return await line.until(b"\n", 8192)


@asynccontextmanager
async def _stall(ask: Ask, line: Line) -> AsyncIterator[None]:
    """Within it, some bytes must come."""
    if ask.stall is None:
        yield
        return
    try:
        async with asyncio.timeout(ask.stall):
            yield
    except TimeoutError:
        raise Silent from None
