"""Connections on which no request comes: the web process lets go of them."""

import asyncio
from contextlib import asynccontextmanager

import uvicorn
from uvicorn.server import ServerState

from controlplane.web.patience import Patient


class Hurried(Patient):
    head_seconds = 0.3


async def slow(scope, receive, send) -> None:
    await asyncio.sleep(0.9)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"OK"})


@asynccontextmanager
async def connected():
    config = uvicorn.Config(slow, http=Hurried, lifespan="off", log_config=None, timeout_keep_alive=30)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: Hurried(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.close()
        server.close()


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


async def test_an_answer_may_take_longer_and_what_comes_after_it_may_not():
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\nOK")).startswith(b"HTTP/1.1 200")
        writer.write(b"\r\n")
        assert await reader.read() == b""
