"""Clients that load and measure: latencies, memory, and writers that do not wait for each answer."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.crash.wire import HOST, Client

PIPELINED = 64


def resident_bytes(pid: int) -> int:
    """RSS of one process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no VmRSS")


def percentile(seconds: list[float], share: float) -> float:
    """In milliseconds."""
    return 1000 * sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))]


def shown(seconds: list[float]) -> str:
    return (
        f"p50 {percentile(seconds, 0.5):.1f} ms, p99 {percentile(seconds, 0.99):.1f} ms,"
        f" worst {1000 * max(seconds):.0f} ms of {len(seconds)}"
    )


async def query_rooms(
    port: int, *, rooms: int, seconds: float, every: float = 0.005, instance: str = ""
) -> list[float]:
    """Latencies of one decode that asks for 64 rooms again and again."""
    taken = []
    async with Client(port, timeout=30) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            body = {"bootstrap_rooms": [spread(random.randrange(rooms)) for _ in range(64)]}
            began = time.monotonic()
            answer = await client.ask("POST", "/query_dp_ranks", body, instance=instance)
            taken.append(time.monotonic() - began)
            assert answer.status == 200, answer
            await asyncio.sleep(every)
    return taken


async def beside(load: Callable[[], Awaitable[None]], port: int, *, rooms: int, instance: str = "") -> list[float]:
    """Latencies of room queries for as long as `load` takes."""
    taken: list[float] = []
    task = asyncio.ensure_future(load())
    while not task.done():
        taken += await query_rooms(port, rooms=rooms, seconds=1, instance=instance)
    await task
    return taken


async def bind_many(port: int, first: int, last: int, *, connections: int = 16) -> None:
    """Bind rooms first … last-1. Many requests are under way on each connection; every answer must be OK."""
    bounds = [first + (last - first) * n // connections for n in range(connections + 1)]
    await asyncio.gather(*(_bind_range(port, *pair) for pair in itertools.pairwise(bounds)))


async def _bind_range(port: int, first: int, last: int) -> None:
    reader, writer = await asyncio.open_connection(HOST, port)
    for start in range(first, last, PIPELINED):
        rooms = range(start, min(start + PIPELINED, last))
        writer.write(b"".join(map(_binding, rooms)))
        for _ in rooms:
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(2)
    writer.close()


def _binding(room: int) -> bytes:
    # Spread over all 63 bits, as real rooms are, and each number another room.
    body = b'{"bootstrap_room":%d,"dp_rank":0}' % spread(room)
    return b"POST /register_dp_rank HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def spread(room: int) -> int:
    return room * 0x5851F42D4C957F2D % 2**63
