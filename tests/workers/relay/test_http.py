"""The relay's own HTTP server over a socket: whole requests however they come, and a clean end for what is none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from controlplane.protocol.replies import Reply
from workers.relay import http
from workers.relay.http import Request, Server

ASK = b"GET /a?b=1 HTTP/1.1\r\nhost: h\r\n\r\n"


class Echo:
    """Says what it was asked; `/slow` waits for `go`."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.closed: list[int] = []
        self.go = asyncio.Event()

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        if request.path == "/slow":
            await self.go.wait()
        if request.path == "/broken":
            raise RuntimeError("a fault of ours")
        return Reply(200, f"{request.method} {request.path} {len(request.body)}".encode())


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    made = Echo()
    server = Server(made, made.closed.append)
    made.server, made.port = server, await server.listen("127.0.0.1", 0)
    yield made
    await server.close()


async def talk(echo: Echo, *parts: bytes, end: bool = True) -> bytes:
    """All that is answered to these bytes, sent piece by piece."""
    reader, writer = await asyncio.open_connection("127.0.0.1", echo.port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)
    if end:
        writer.write_eof()
    said = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return said


async def test_one_answer_after_another_on_one_connection_however_the_bytes_come(echo):
    for parts in ((ASK * 3,), tuple(bytes([byte]) for byte in ASK * 3), (ASK[:5], ASK[5:] + ASK[:20], ASK[20:] + ASK)):
        said = await talk(echo, *parts)
        assert said.count(b"HTTP/1.1 200 OK\r\n") == 3 and said.count(b"GET /a 0") == 3
    assert echo.asked[-1].query == b"b=1" and echo.asked[-1].headers == {b"host": b"h"}
    assert len({request.connection for request in echo.asked}) == 3


async def test_bodies_by_length_and_in_chunks(echo):
    length = b"PUT /b HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello"
    chunks = b"PUT /b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
    said = await talk(echo, length + chunks + length)
    assert said.count(b"PUT /b 5") == 3
    assert [request.body for request in echo.asked] == [b"hello"] * 3
    expect = b"PUT /b HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n"
    assert (await talk(echo, expect, b"hello")).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


async def test_a_connection_is_kept_as_its_client_wants(echo):
    close = ASK.replace(b"host: h", b"connection: close")
    assert (await talk(echo, close + ASK, end=False)).count(b"200 OK") == 1
    assert (await talk(echo, ASK.replace(b"1.1", b"1.0"), end=False)).count(b"200 OK") == 1
    kept = ASK.replace(b"1.1", b"1.0").replace(b"host: h", b"connection: keep-alive")
    assert (await talk(echo, kept + kept)).count(b"200 OK") == 2
    head = await talk(echo, ASK.replace(b"GET", b"HEAD"))
    assert head.endswith(b"content-length: 8\r\n\r\n".replace(b"8", b"9")) and b"HEAD /a" not in head


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /a HTTP/2.0\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nno colon\r\n\r\n", 400),
        # What cannot be passed on would look as if the control plane were away.
        (b"GET /a?b=\0 HTTP/1.1\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nif-none-match: a\rb\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nif-none-match: a\0\r\n\r\n", 400),
        (b"PUT /a HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"PUT /a HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc", 400),
        (b"PUT /a HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"PUT /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"PUT /a HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n", 413),
        (b"PUT /a HTTP/1.1\r\ncontent-length: 1048577\r\n\r\n", 413),
        (b"PUT /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffff\r\n", 413),
        (b"GET /a HTTP/1.1\r\nx: " + b"y" * 70_000, 431),
    ],
)
async def test_what_is_no_request_is_answered_and_the_connection_closed(echo, sent, status):
    said = await talk(echo, sent, end=False)
    assert said.startswith(b"HTTP/1.1 %d " % status) and b"connection: close" in said
    assert echo.asked == [] and b"200 OK" in await talk(echo, ASK)


async def test_large_bodies_are_few_at_once(echo, monkeypatch):
    monkeypatch.setattr(http, "MOST_LARGE", 0)
    large = b"PUT /a HTTP/1.1\r\ncontent-length: 100000\r\n\r\n"
    assert (await talk(echo, large, end=False)).startswith(b"HTTP/1.1 503 ")
    monkeypatch.setattr(http, "MOST_LARGE", 1)
    for _ in range(2):
        assert b"PUT /a 100000" in await talk(echo, large, b"x" * 100_000)
    assert b"200 OK" in await talk(echo, ASK)


async def test_a_fault_of_ours_ends_one_connection_alone(echo):
    assert await talk(echo, ASK.replace(b"/a?b=1", b"/broken")) == b""
    assert b"200 OK" in await talk(echo, ASK)


async def test_who_says_nothing_is_hung_up_on_and_connections_are_bounded(echo, monkeypatch):
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.2)
    assert await talk(echo, b"GET /a", end=False) == b""
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 0)
    with contextlib.suppress(ConnectionError):
        assert await talk(echo, ASK, end=False) == b""


async def test_what_is_under_way_is_answered_when_it_ends_and_who_closed_is_told_of(echo):
    slow = asyncio.create_task(talk(echo, ASK.replace(b"/a?b=1", b"/slow"), end=False))
    idle = asyncio.create_task(talk(echo, ASK, end=False))
    while len(echo.asked) < 2:
        await asyncio.sleep(0.005)
    closing = asyncio.create_task(echo.server.close())
    await idle
    echo.go.set()
    await closing
    assert b"200 OK" in await slow
    assert sorted(echo.closed) == sorted(request.connection for request in echo.asked)
