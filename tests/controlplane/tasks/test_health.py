"""Engines watched by real workers: one dies and is seen to, a worker dies and another goes on, two tell a thing once."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.commands import instances, suspecting
from controlplane.ledger.tail import latest
from controlplane.queries import fleet, routable
from controlplane.tasks import health
from tests.controlplane.commands.on_backend import inside
from tests.doubles.engine import Engine
from tests.support.machine import slowness
from tests.support.processes import Child
from tests.support.redis import Redis

WHO = {"actor": "anna"}


@pytest.fixture
def redis() -> Iterator[Redis]:
    with tempfile.TemporaryDirectory(prefix="r") as directory:
        started = Redis(Path(directory)).start()
        yield started
        started.kill9()


@pytest.fixture
def worker(sqlite_backend, redis, tmp_path) -> Iterator[Callable[..., Child]]:
    """`worker()` -> a worker with beat, in a process of its own."""
    started: list[Child] = []

    def start() -> Child:
        argv = [sys.executable, "-m", "celery", "-A", "controlplane", "worker", "-P", "threads", "-c", "8", "-B"]
        number = len(started)
        argv += ["-n", f"w{number}@%h", "--schedule", str(tmp_path / f"beat-{number}"), "--without-mingle"]
        env = {**sqlite_backend.env, "REDIS_URL": redis.url, "PDCP_PROBE_NETWORKS": "127.0.0.0/8"}
        child = Child(argv, env=env, log=tmp_path / f"worker-{number}.log")
        started.append(child)
        child.wait_for_line("celery ready", timeout=120)
        return child

    with inside(sqlite_backend):
        yield start
    for child in started:
        child.kill9()


def state(name: str = "d") -> str:
    return fleet.instance(name, now=time.time())[0].engine.state


def turned(name: str = "d") -> list[str]:
    return [event.data["state"] for event in latest(500, instance=name) if event.kind == "engine.turned"]


def within(seconds: float, condition: Callable[[], bool]) -> float:
    """How long it took; `seconds` are those of a machine that does nothing else."""
    began, end = time.monotonic(), time.monotonic() + seconds * slowness() + 2
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {state()}, {turned()}"
        time.sleep(0.02)
    return time.monotonic() - began


def test_an_engine_that_dies_and_comes_back_is_seen_by_workers_that_die_too(worker):
    with Engine("decode") as engine:
        instances.add("d", role="decode", engine_url=engine.url, **WHO)
        first = worker()
        within(20, lambda: state() == "up")
        engine.stop()
        within(6, lambda: state() == "down")
        assert not routable.instance("d", now=time.time()).routable
        # The worker is killed: what it knew is stored, and the next one goes on from there.
        first.kill9()
        engine.start()
        worker(), worker()
        within(20, lambda: state() == "up")
        engine.stop()
        within(6, lambda: state() == "down")
        assert turned().count("down") == 2 and turned().count("up") == 2, turned()


def test_the_tasks_run_where_there_is_nothing_to_ask(on_backend):
    health.probe_engines()
    health.probe_suspects()


def test_a_doubt_is_sent_to_a_worker_and_never_waits_for_a_broker(on_backend, monkeypatch):
    with Engine("decode") as engine:
        instances.add("d", role="decode", engine_url=engine.url, **WHO)
        monkeypatch.setattr(suspecting.settings, "REDIS_URL", "redis://127.0.0.1:1/0")
        sent = []

        class App:
            def send_task(self, *arguments, **options):
                sent.append((arguments, options))
                raise ConnectionError("nobody there")

        monkeypatch.setattr(suspecting, "app", App())
        began = time.monotonic()
        assert suspecting.suspect("d", **WHO).changed
        assert time.monotonic() - began < 5 * slowness()
        within(5, lambda: len(sent) == 1)
        assert sent[0][0] == (suspecting.TASK,) and sent[0][1]["retry"] is False
        within(5, lambda: not suspecting._sending.locked())
        assert health.probe_suspects.name == suspecting.TASK
