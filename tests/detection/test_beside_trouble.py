"""A death is seen as soon as ever while the database is slow, or Redis is away: neither stands between a rank and a probe."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median

import pytest

from tests.cases.ranks import Ranks
from tests.crash.own_postgres import OwnPostgres
from tests.crash.wire import Client, eventually, route_body
from tests.detection.sight import Seen, Sight
from tests.detection.trouble import HELD_SECONDS, Slow, held_again_and_again
from tests.support.machine import slowness
from tests.support.plugin import Backend
from tests.support.postgres import Unavailable
from tests.support.processes import Bootstrap, freeze
from tests.support.redis import Redis

DEATHS = 4
SEEN_WITHIN, USUALLY_WITHIN = 6.0, 2.0
LATER_AT_MOST = 1.0
"""What a few commits of such a database take: the verdict is no later, its record is."""

Make = Callable[..., Bootstrap]
Trouble = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def own_postgres() -> Iterator[OwnPostgres]:
    # Not below tmp_path, into which the server's user may not look.
    directory = Path(tempfile.mkdtemp(prefix="pdcp-slow-"))
    try:
        server = OwnPostgres(directory)
    except Unavailable as why:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(why))
    yield server
    server.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("r")).start()
    yield server
    server.kill9()


async def put(bootstrap: Bootstrap, instance: str, port: int) -> None:
    async with Client(bootstrap.kv_port) as client:
        body = route_body(ip="127.0.0.1", port=port)
        answer = await eventually(client, "PUT", "/route", body, instance=instance, within=30)
        assert answer.status == 200, answer


async def die_and_return(bootstrap: Bootstrap, ranks: Ranks, *, times: int = DEATHS) -> list[Seen]:
    """Seconds until each death of an instance of one rank was seen; its successor is there before the next."""
    sight = Sight("mortal", bootstrap.kv_port)
    port = ranks.open()
    await put(bootstrap, "mortal", port)
    await sight.alive(time.monotonic(), port)
    deaths = []
    for _ in range(times):
        # At any moment of a round.
        await asyncio.sleep(random.random())
        ranks.die(port)
        deaths.append(await sight.dead(time.monotonic()))
        port = ranks.open()
        await put(bootstrap, "mortal", port)
        await sight.alive(time.monotonic(), port)
    ranks.die(port)
    await sight.dead(time.monotonic())
    sight.close()
    return deaths


def compare(bootstrap: Bootstrap, ranks: Ranks, *troubles: Trouble) -> None:
    """Deaths in quiet times, then in each trouble: all of them are seen, and about as soon."""

    async def neighbours() -> None:
        # Healthy company: without it the deaths would look like a fault of ours.
        for number in range(6):
            await put(bootstrap, f"neighbour-{number}", ranks.open())

    asyncio.run(neighbours())
    quiet = times(asyncio.run(die_and_return(bootstrap, ranks)))
    for trouble in troubles:
        with trouble():
            troubled = times(asyncio.run(die_and_return(bootstrap, ranks)))
        print(f"quiet {[f'{s:.2f}' for s in quiet]}, troubled {[f'{s:.2f}' for s in troubled]}")
        assert max(troubled) <= SEEN_WITHIN and median(troubled) <= USUALLY_WITHIN
        assert median(troubled) <= median(quiet) + LATER_AT_MOST


def times(deaths: list[Seen]) -> list[float]:
    """Seconds, of a machine without other work, until the last of everybody had seen each."""
    slow = slowness()
    return [max(seen.values()) / slow for seen in deaths]


@pytest.mark.timeout(180)
def test_while_another_writer_holds_sqlite_for_200_ms_at_a_time(
    sqlite_backend: Backend, make_bootstrap: Make, ranks: Ranks
):
    bootstrap = make_bootstrap(sqlite_backend).start()
    compare(bootstrap, ranks, lambda: held_again_and_again(sqlite_backend.data_dir / "controlplane.sqlite3"))


@pytest.mark.timeout(180)
def test_while_every_answer_of_postgresql_takes_200_ms_longer(
    own_postgres: OwnPostgres, make_bootstrap: Make, tmp_path: Path, ranks: Ranks
):
    proxy = Slow(own_postgres.port)
    (tmp_path / "data").mkdir()
    bootstrap = make_bootstrap(own_postgres.backend(tmp_path / "data", through=proxy.port)).start()

    @contextmanager
    def slow() -> Iterator[None]:
        proxy.delay = HELD_SECONDS
        yield
        proxy.delay = 0.0

    compare(bootstrap, ranks, slow)
    bootstrap.kill9()
    proxy.close()


@pytest.mark.timeout(180)
def test_while_redis_hangs_and_while_it_is_gone(
    sqlite_backend: Backend, make_bootstrap: Make, redis: Redis, ranks: Ranks
):
    bootstrap = make_bootstrap(sqlite_backend, REDIS_URL=redis.url).start()

    def hangs() -> AbstractContextManager[None]:
        # It takes connections, and says nothing: worse than to be gone.
        freeze(redis.pid)
        return nullcontext()

    def gone() -> AbstractContextManager[None]:
        redis.kill9()
        return nullcontext()

    compare(bootstrap, ranks, hangs, gone)
