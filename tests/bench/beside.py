"""What goes on beside a measurement: `heartbeats URL PER_SECOND` or `hostile URL`.

Goes on until standard input has a line. Prints `going` when it is under way, and in the end `result {…}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

HEARTBEATERS = 50
IDLE, SLOW, OVERSIZED_PER_SECOND = 5_000, 100, 10
OVERSIZED_BYTES = 32 * 2**20


async def heartbeats(host: str, port: int, per_second: float) -> dict[str, Any]:
    """Decodes that poll /health on connections of their own, evenly spread."""
    took: list[float] = []
    period = HEARTBEATERS / per_second
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def beat(first: float) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        due = began + first
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            due += period
            sent = loop.time()
            writer.write(b"GET /health HTTP/1.1\r\nHost: bench\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
            took.append(loop.time() - sent)

    await _until_told(beat(at * period / HEARTBEATERS) for at in range(HEARTBEATERS))
    took.sort()
    rate = len(took) / (loop.time() - began)
    return {"per_second": round(rate), "p99": round(took[int(len(took) * 0.99)] * 1000, 3) if took else None}


async def hostile(host: str, port: int) -> dict[str, Any]:
    """Idle connections, bodies that come a byte at a time, and bodies over every limit."""
    opened = [0]
    room = asyncio.Semaphore(100)

    async def idle() -> None:
        async with room:
            _, writer = await asyncio.open_connection(host, port)
        opened[0] += 1
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()

    async def slow() -> None:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, port)
                writer.write(b"PUT /route HTTP/1.1\r\nHost: bench\r\nContent-Length: 1000\r\n\r\n{")
                for _ in range(60):
                    await asyncio.sleep(0.5)
                    writer.write(b" ")
                    await writer.drain()
                writer.close()

    async def oversized() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                _, writer = await asyncio.open_connection(host, port)
                length = f"Content-Length: {OVERSIZED_BYTES}\r\n\r\n".encode()
                writer.write(b"PUT /route HTTP/1.1\r\nHost: bench\r\n" + length)
                for _ in range(OVERSIZED_BYTES // 2**16):
                    writer.write(bytes(2**16))
                    await writer.drain()
                writer.close()
            await asyncio.sleep(1 / OVERSIZED_PER_SECOND)

    await _until_told(
        [*(idle() for _ in range(IDLE)), *(slow() for _ in range(SLOW)), oversized()],
        under_way=lambda: opened[0] >= IDLE * 0.99,
    )
    return {"idle": opened[0]}


async def _until_told(work: Any, *, under_way: Any = lambda: True) -> None:
    """Run the coroutines of `work` until standard input has a line."""
    loop = asyncio.get_running_loop()
    told = loop.run_in_executor(None, sys.stdin.readline)
    tasks = [asyncio.create_task(_unharmed(each)) for each in work]
    for _ in range(300):
        await asyncio.sleep(0.1)
        if under_way():
            break
    print("going", flush=True)
    await told
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _unharmed(work: Coroutine[Any, Any, None]) -> None:
    """The other side may hang up: that is an answer too."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await work


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    url = urlsplit(sys.argv[2])
    assert url.hostname and url.port
    if sys.argv[1] == "heartbeats":
        result = asyncio.run(heartbeats(url.hostname, url.port, float(sys.argv[3])))
    else:
        result = asyncio.run(hostile(url.hostname, url.port))
    print(f"result {json.dumps(result)}", flush=True)


if __name__ == "__main__":
    main()
