"""Deaths among thousands: a round of probes stays short, and one that dies is seen within it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from controlplane.probes.pacing import round_seconds
from tests.cases.ranks import Ranks
from tests.crash.wire import TOPOLOGY_PATH, Client, eventually
from tests.detection.crowd import Crowd
from tests.detection.test_beside_trouble import die_and_return, put
from tests.detection.trouble import held_again_and_again
from tests.soak.hooks import Note
from tests.support.machine import slowness
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap, freeze
from tests.support.redis import Redis

FULL_SWEEP_SECONDS = 8.0
CONFIRM_SECONDS = 1.5
"""The second refusal, the commits, and everybody's eyes."""

Make = Callable[..., Bootstrap]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


async def pace(client: Client) -> dict[str, Any]:
    return (await client.ask("GET", "/readyz")).json()["probes"]


async def sweeps(bootstrap: Bootstrap, count: int, *, times: int) -> list[float]:
    """Seconds in which so many were asked, that is everybody: whoever was not asked for longest is next."""
    took = []
    async with Client(bootstrap.kv_port) as client:
        while (await pace(client))["ranks"] < count:
            await asyncio.sleep(0.05)
        began, first = time.monotonic(), (await pace(client))["asked"]
        while len(took) < times:
            if (asked := (await pace(client))["asked"]) - first >= count:
                took.append(time.monotonic() - began)
                began, first = time.monotonic(), asked
            await asyncio.sleep(0.02)
    return took


async def gather_a_crowd(bootstrap: Bootstrap, crowd: Crowd) -> None:
    await crowd.register(bootstrap.kv_port)
    async with Client(bootstrap.kv_port) as client:
        for name in sorted({instance for instance, _ in crowd.bodies()}):
            answer = await eventually(client, "GET", TOPOLOGY_PATH, instance=name, within=60)
            assert answer.status == 200, f"{name}: {answer}"


@pytest.mark.timeout(180)
def test_two_thousand_ranks_are_asked_within_seconds_and_a_death_among_them_is_seen_in_the_next_round(
    sqlite_backend: Backend, make_bootstrap: Make, ranks: Ranks, tmp_path: Path, stack: ExitStack
):
    count = 2_000
    crowd = Crowd(count, tmp_path / "crowd.log")
    stack.callback(crowd.close)
    bootstrap = make_bootstrap(sqlite_backend).start()
    asyncio.run(gather_a_crowd(bootstrap, crowd))
    took = asyncio.run(sweeps(bootstrap, count, times=2))
    assert min(took) / slowness() <= round_seconds(count, 1.0) + 1, took
    deaths = asyncio.run(die_and_return(bootstrap, ranks, times=2))
    within = round_seconds(count, 1.0) + CONFIRM_SECONDS
    assert all(seconds / slowness() <= within for seen in deaths for seconds in seen.values()), deaths


@pytest.mark.soak
def test_ten_thousand_ranks_are_asked_within_8_s_whatever_the_database_and_redis_do(
    sqlite_backend: Backend,
    make_bootstrap: Make,
    ranks: Ranks,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    stack: ExitStack,
    note: Note,
):
    count = 10_000
    crowd = Crowd(count, tmp_path / "crowd.log")
    stack.callback(crowd.close)
    redis = Redis(tmp_path_factory.mktemp("r")).start()
    stack.callback(redis.kill9)
    bootstrap = make_bootstrap(sqlite_backend, REDIS_URL=redis.url).start()
    asyncio.run(gather_a_crowd(bootstrap, crowd))

    async def neighbour() -> None:
        await put(bootstrap, "neighbour", ranks.open())

    asyncio.run(neighbour())
    process = psutil.Process(bootstrap.pid)

    def look(what: str) -> None:
        before, began = process.cpu_times(), time.monotonic()
        took = asyncio.run(sweeps(bootstrap, count, times=3))
        after, lasted = process.cpu_times(), time.monotonic() - began
        cores = (after.user + after.system - before.user - before.system) / lasted
        deaths = asyncio.run(die_and_return(bootstrap, ranks, times=3))
        seen = max(seconds for each in deaths for seconds in each.values())
        note(
            what,
            f"all asked in {', '.join(f'{seconds:.1f} s' for seconds in took)} with {cores:.2f} cores;"
            f" the latest of 3 deaths seen after {seen:.1f} s",
        )
        assert median(took) / slowness() <= FULL_SWEEP_SECONDS, took
        assert seen / slowness() <= FULL_SWEEP_SECONDS + CONFIRM_SECONDS

    look("in quiet times")
    with held_again_and_again(sqlite_backend.data_dir / "controlplane.sqlite3"):
        look("while the database is slow")
    freeze(redis.pid)
    look("while Redis hangs")
    redis.kill9()
    look("while Redis is gone")
