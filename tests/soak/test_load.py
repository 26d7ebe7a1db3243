"""Load without end: idle connections, rooms, and large dictionaries, while others are served as before."""

import asyncio
import gc
import os
import random
import resource
import sys
import time
from collections.abc import Callable

import pytest

from tests.crash.wire import HOST, Client, engine_body, eventually, route_body, slot_path
from tests.soak.hooks import Note
from tests.soak.measure import beside, bind_many, query_rooms, resident_bytes, shown, spread
from tests.soak.report import share
from tests.support.plugin import Backend
from tests.support.processes import ROOT, Bootstrap

pytestmark = pytest.mark.soak
MiB = 2**20
IDLE_CONNECTIONS = 5000
ROOM_LIMIT = 2_000_000
ROOMS = 2_400_000
BYTES_PER_ROOM = 120
SLACK = 96 * MiB
"""Buffers, prepared statements and the allocator's holes, whatever the number of rooms."""


def test_five_thousand_idle_connections_leave_others_alone(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap], note: Note
):
    _allow_descriptors(IDLE_CONNECTIONS + 500)
    bootstrap = make_bootstrap(sqlite_backend).start()
    alone_memory = resident_bytes(bootstrap.pid)

    async def play() -> tuple[list[float], list[float], int, int]:
        await bind_many(bootstrap.kv_port, 0, 5000)
        alone = await query_rooms(bootstrap.kv_port, rooms=5000, seconds=5)
        idle = []
        for _ in range(IDLE_CONNECTIONS // 100):
            idle += await asyncio.gather(*(asyncio.open_connection(HOST, bootstrap.kv_port) for _ in range(100)))
        # Half of them have asked once, as decodes do; half never said a word.
        for reader, writer in idle[::2]:
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\nOK")
        crowded = await query_rooms(bootstrap.kv_port, rooms=5000, seconds=5)
        memory = resident_bytes(bootstrap.pid)
        still_open = sum(not reader.at_eof() for reader, _ in idle)
        for _, writer in idle:
            writer.transport.abort()
        return alone, crowded, memory, still_open

    alone, crowded, memory, still_open = asyncio.run(play())
    note("room queries alone", shown(alone))
    note("beside 5,000 idle connections", shown(crowded))
    per_connection = (memory - alone_memory) / IDLE_CONNECTIONS
    note("memory", f"{memory / MiB:.0f} MiB, {per_connection / 1024:.1f} KiB a connection")
    assert still_open == IDLE_CONNECTIONS
    assert per_connection < 20 * 1024
    assert sorted(crowded)[int(len(crowded) * 0.99)] < max(0.05, 3 * sorted(alone)[int(len(alone) * 0.99)])


def test_rooms_without_end_stay_within_their_memory(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap], note: Note
):
    limit, rooms = round(ROOM_LIMIT * share()), round(ROOMS * share())
    bootstrap = make_bootstrap(sqlite_backend, PDCP_ROOM_LIMIT=limit, PDCP_ROOM_TTL_SECONDS=3600).start()

    async def play() -> tuple[int, int, list[float], float]:
        await bind_many(bootstrap.kv_port, 0, 1000)
        before, highest = resident_bytes(bootstrap.pid), 0
        began = time.monotonic()
        latencies: list[float] = []
        step = max(rooms // 24, 1000)
        for start in range(1000, rooms, step):
            load = lambda start=start: bind_many(bootstrap.kv_port, start, min(start + step, rooms))  # noqa: E731
            latencies += await beside(load, bootstrap.kv_port, rooms=1000)
            highest = max(highest, resident_bytes(bootstrap.pid))
        return before, highest, latencies, time.monotonic() - began

    async def known(numbers: range) -> int:
        async with Client(bootstrap.kv_port, timeout=30) as client:
            body = {"bootstrap_rooms": [spread(number) for number in numbers]}
            answer = await eventually(client, "POST", "/query_dp_ranks", body, within=30)
            return len(answer.json())

    before, highest, latencies, took = asyncio.run(play())
    per_room = (highest - before) / limit
    note("rooms", f"{rooms:,} bound in {took:.0f} s ({rooms / took:,.0f} a second), {limit:,} kept")
    note(
        "memory", f"{before / MiB:.0f} MiB before, {highest / MiB:.0f} MiB at most: {per_room:.0f} bytes a room of RSS"
    )
    note("room queries meanwhile", shown(latencies))
    # The oldest went, the newest are there.
    assert asyncio.run(known(range(1000))) == 0
    assert asyncio.run(known(range(rooms - 1000, rooms))) == 1000
    assert highest - before < limit * BYTES_PER_ROOM + SLACK
    began = time.monotonic()
    bootstrap.restart(within=30)
    ready = time.monotonic() - began
    assert asyncio.run(known(range(rooms - 1000, rooms))) == 1000
    note("kill -9 and restart", f"{ready:.1f} s to the first answer, {time.monotonic() - began:.1f} s to rooms")
    note("memory after the restart", f"{resident_bytes(bootstrap.pid) / MiB:.0f} MiB")
    assert resident_bytes(bootstrap.pid) - before < limit * BYTES_PER_ROOM + SLACK
    assert ready < 4


def test_sixty_four_readers_of_large_dictionaries_leave_rooms_their_p99(
    backend: Backend, make_bootstrap: Callable[..., Bootstrap], note: Note
):
    bootstrap = make_bootstrap(backend).start()
    # About 6 MB of JSON each, of four ranks.
    numbers = random.Random(1)
    weights = [
        {f"model.layers.{n}.mlp.experts.weight": [numbers.getrandbits(47), 2**20 + n, 2] for n in range(92_000)}
        for _ in range(4)
    ]
    bodies = [engine_body(rank, f"203.0.113.9:{rank}", each) for rank, each in enumerate(weights)]
    del weights
    gc.collect()

    async def put_one(rank: int) -> float:
        began = time.monotonic()
        async with Client(bootstrap.engine_port, timeout=60) as client:
            answer = await client.ask("PUT", "/register_transfer_engine_info", bodies[rank], instance="default")
            assert answer.status == 200, answer
        return time.monotonic() - began

    async def play() -> tuple[list[float], list[float], list[float]]:
        async with Client(bootstrap.kv_port) as client:
            body = route_body(ip="203.0.113.1", port=5000)
            assert (await client.ask("PUT", "/route", body)).status == 200
            assert (await client.ask("GET", slot_path(0, 0))).status == 200
        await bind_many(bootstrap.kv_port, 0, 5000)
        alone = await query_rooms(bootstrap.kv_port, rooms=5000, seconds=5)
        uploads = list(await asyncio.gather(*(put_one(rank) for rank in range(4))))
        # Readers in a process of their own: their work must not look like waiting for the directory.
        command = [sys.executable, "-m", "tests.soak.readers", str(bootstrap.engine_port), str(max(4.0, 20 * share()))]
        readers = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        heard: list[bytes] = []

        async def until_they_end() -> None:
            heard.append((await readers.communicate())[0])

        crowded = await beside(until_they_end, bootstrap.kv_port, rooms=5000)
        assert readers.returncode == 0
        note("read", heard[0].decode().strip())
        return alone, crowded, uploads

    before = resident_bytes(bootstrap.pid)
    alone, crowded, uploads = asyncio.run(play())
    note("four uploads of", f"{len(bodies[0]) / 1e6:.1f} MB at once: {max(uploads):.1f} s")
    note("room queries alone", shown(alone))
    note("room queries beside 64 readers", shown(crowded))
    note("memory", f"{before / MiB:.0f} MiB before, {resident_bytes(bootstrap.pid) / MiB:.0f} MiB after")
    assert bootstrap.child.exit_code is None
    # A look-up stands in a decode's scheduling path, and gives up after 5 s.
    assert sorted(crowded)[int(len(crowded) * 0.99)] < 0.25


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(
                f"{count} descriptors are needed; the limit is {hard}"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
