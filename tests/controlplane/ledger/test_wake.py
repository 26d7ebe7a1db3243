"""Wake-ups over a real Redis, and what happens without one: nothing worse than silence."""

import asyncio
import contextlib
import socket
import time

import pytest
from django.test import override_settings

from controlplane.commands import instances
from controlplane.databases import FACTS
from controlplane.ledger import wake
from controlplane.supervisor import embedded_redis
from tests.support.processes import Child, clean_env


class Redis:
    """A real server on a Unix socket that can go and come back."""

    def __init__(self, directory, log):
        self.socket = directory / "r.sock"
        self._argv = [str(embedded_redis.find_binary()), "--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        self._directory, self._log = directory, log
        self.child: Child | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    def start(self) -> None:
        self.child = Child([*self._argv, "--dir", str(self._directory)], env=clean_env(), log=self._log)
        self.child.wait_for_line("(?i)ready to accept connections", timeout=60)

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill9()
            self.socket.unlink(missing_ok=True)


@pytest.fixture
def redis(tmp_path_factory):
    directory = tmp_path_factory.mktemp("r")
    server = Redis(directory, directory / "log")
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _own_bell(monkeypatch):
    monkeypatch.setattr(wake, "_bell", None)


@contextlib.asynccontextmanager
async def listening(url: str):
    event = asyncio.Event()
    task = asyncio.create_task(wake.wakes(url, event))
    try:
        yield event
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def heard(event: asyncio.Event, within: float = 20) -> float:
    begun = time.monotonic()
    await asyncio.wait_for(event.wait(), within)
    event.clear()
    return time.monotonic() - begun


async def test_a_listener_wakes_when_it_is_connected_and_at_every_word_after(redis):
    async with listening(redis.url) as event:
        await heard(event)
        with override_settings(REDIS_URL=redis.url):
            for revision in (1, 2):
                wake.publish(revision)
                # A peer that says nothing is asked every 5 s: a word is heard before that.
                assert await heard(event) < 4


async def test_a_listener_comes_back_with_redis_and_looks_for_what_it_missed(redis):
    async with listening(redis.url) as event:
        await heard(event)
        redis.stop()
        await asyncio.sleep(0.3)
        assert not event.is_set()
        redis.start()
        # Nobody published: connecting again is reason enough to look.
        await heard(event)
        with override_settings(REDIS_URL=redis.url):
            wake.publish(3)
            await heard(event)


async def test_without_a_url_nothing_is_heard_and_nothing_fails():
    async with listening("") as event:
        with override_settings(REDIS_URL=""):
            wake.publish(1)
        await asyncio.sleep(0.05)
        assert not event.is_set()


@contextlib.contextmanager
def hung_redis():
    """Accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_publishing_never_holds_up_the_caller_nor_fails():
    with hung_redis() as hung:
        for url in (hung, "redis://127.0.0.1:1/0", "redis://no-such-host.invalid:6379/0", "unix:///no/such/socket"):
            wake._bell = None
            with override_settings(REDIS_URL=url):
                for revision in range(3):
                    begun = time.monotonic()
                    wake.publish(revision)
                    # 50 ms, and what a busy machine adds to it; Redis itself is waited for a second.
                    assert time.monotonic() - begun < 0.8, url


def test_a_sleep_ends_early_at_a_wake_up_and_in_time_without_one(redis):
    sleeper = wake.Sleeper(redis.url)
    assert not sleeper.sleep(0.5)
    with override_settings(REDIS_URL=redis.url):
        wake.publish(1)
    begun = time.monotonic()
    assert sleeper.sleep(20)
    assert time.monotonic() - begun < 10
    redis.stop()
    begun = time.monotonic()
    assert not sleeper.sleep(0.2)
    assert 0.15 < time.monotonic() - begun < 5
    sleeper.close()


async def test_a_command_wakes_listeners_once_it_is_committed_and_not_when_it_is_rolled_back(redis, on_backend):
    from asgiref.sync import sync_to_async
    from django.db import connections, transaction

    def add(name: str, *, roll_back: bool) -> None:
        with transaction.atomic(using=FACTS):
            instances.add(name, actor="anna")
            transaction.set_rollback(roll_back, using=FACTS)
        connections.close_all()

    with override_settings(REDIS_URL=redis.url):
        async with listening(redis.url) as event:
            await heard(event)
            await sync_to_async(add, thread_sensitive=False)("a", roll_back=True)
            await asyncio.sleep(0.2)
            assert not event.is_set()
            await sync_to_async(add, thread_sensitive=False)("a", roll_back=False)
            await heard(event)
