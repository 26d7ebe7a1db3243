"""Connections on which no request comes: the web process lets go of them."""

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from controlplane.web.patience import Patient
from controlplane.web.server import configured


class Hurried(Patient):
    head_seconds = 0.3


async def slow(scope, receive, send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
    await asyncio.sleep(0.9)
    if scope["type"] == "websocket":
        await send({"type": "websocket.send", "text": "OK"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"OK"})


class Unhurried(Patient):
    head_seconds = 300


@asynccontextmanager
async def connected(protocol=Hurried):
    config = uvicorn.Config(slow, http=protocol, lifespan="off", log_config=None, timeout_keep_alive=30)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.close()
        server.close()


def test_an_idle_connection_lasts_longer_than_load_balancers_and_proxies_keep_theirs():
    # 60 s: nginx towards its upstreams, AWS. Who closes later is the one who is surprised.
    assert configured().timeout_keep_alive > 60


async def test_a_connection_that_says_nothing_is_closed():
    async with connected() as (reader, _):
        assert await reader.read() == b""


async def test_a_request_that_is_never_finished_is_closed_however_slowly_it_comes():
    async with connected() as (reader, writer):
        ended = asyncio.ensure_future(reader.read())
        for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: " + b"x" * 200:
            if ended.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
        assert await ended == b""


@pytest.mark.parametrize(
    "begin",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ",
        b"GET /?",
        # Headers may also follow a body.
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Long: ",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0",
    ],
)
async def test_a_head_that_never_ends_is_not_kept_in_memory(begin):
    async with connected(Unhurried) as (reader, writer):
        writer.write(begin)
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                writer.write(b"0" * 16_384)
                await writer.drain()
        said = b""
        with contextlib.suppress(ConnectionError):
            said = await reader.read()
        # Who still sends when the connection is closed may miss why.
        assert said == b"" or said.startswith(b"HTTP/1.1 431")


async def test_a_body_may_be_larger_than_a_head():
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n")
        for _ in range(3):
            writer.write(b"x" * 100_000)
            await writer.drain()
        assert (await reader.readuntil(b"\r\n\r\nOK")).startswith(b"HTTP/1.1 200")
        writer.write(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n"
        )
        assert (await reader.readuntil(b"\r\n\r\nOK")).startswith(b"HTTP/1.1 200")


async def test_an_answer_may_take_longer_and_what_comes_after_it_may_not():
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\nOK")).startswith(b"HTTP/1.1 200")
        writer.write(b"\r\n")
        assert await reader.read() == b""


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


async def test_a_websocket_lasts_however_little_is_said_on_it():
    async with connected() as (reader, writer):
        writer.write(UPGRADE + b"\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        # The application below says a word when a connection without one would be long closed.
        assert (await reader.readexactly(4)) == b"\x81\x02OK"


async def test_a_handshake_that_is_not_one_is_not_waited_for_for_ever():
    async with connected() as (reader, writer):
        writer.write(UPGRADE + b"Content-Length: 3\r\n\r\nabc")
        assert await reader.read() == b""


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no socket of both families here")
async def test_an_ipv4_client_of_a_socket_of_both_families_is_known_by_its_own_address():
    async def who(scope, receive, send) -> None:
        said = scope["client"][0].encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
        await send({"type": "http.response.body", "body": said})

    config = uvicorn.Config(who, http=Patient, lifespan="off", log_config=None)
    config.load()
    both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    state, loop = ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Patient(config, state, {}), sock=both)
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", both.getsockname()[1])
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
    writer.close()
    server.close()
    assert answer.endswith(b"\r\n127.0.0.1")
