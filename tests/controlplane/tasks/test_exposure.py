"""A Celery worker tells what its tasks came to, at an address that ends with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import psutil
import pytest

from controlplane.metrics.clockwork import RUNNING, TASKS
from controlplane.tasks import exposure
from tests.cases.ranks import eventually
from tests.controlplane.metrics.scraping import Scrape
from tests.support.plugin import Backend
from tests.support.ports import free_port, is_open
from tests.support.processes import Child
from tests.support.redis import Redis

GENEROUS_SECONDS = 60.0


@pytest.fixture
def worker(sqlite_backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Child]]:
    """`worker(port, "-P", "threads")` -> a Celery worker with beat that is ready."""
    directory = tmp_path_factory.mktemp("m")
    with ExitStack() as stack:
        redis = Redis(directory)
        stack.callback(redis.kill9)
        redis.start()

        def start(port: int, *pool: str) -> Child:
            env = {**sqlite_backend.env, "REDIS_URL": redis.url, "PDCP_ENV_FILE": "/dev/null"}
            words = "-m celery -A controlplane -q worker -c 4 -B --without-gossip --without-mingle -l INFO"
            child = Child(
                [sys.executable, *words.split(), *pool],
                env={**env, "PDCP_METRICS_CELERY_PORT": str(port)},
                log=directory / "worker.log",
            )
            stack.callback(child.kill9)
            child.wait_for_line("celery ready", timeout=GENEROUS_SECONDS)
            return child

        yield start


def test_it_tells_of_its_rounds_and_gives_its_port_back_when_it_is_killed(worker):
    port = free_port()
    one = worker(port, "-P", "threads")
    url = f"http://127.0.0.1:{port}/metrics"
    eventually(
        lambda: (Scrape.of(url).get("pdcp_tasks_total", task="check_drains", outcome="done") or 0) >= 2, within=60
    )
    said = Scrape.of(url)
    done = said.value("pdcp_tasks_total", task="check_drains", outcome="done")
    assert said.value("pdcp_task_seconds_count", task="check_drains") == done
    assert said.value("pdcp_build_info", version="0.1.0", process="celery") == 1
    # An embedded beat begins as a copy of the worker's process.
    (beat,) = psutil.Process(one.pid).children()
    assert port not in {place.laddr.port for place in beat.net_connections() if place.status == "LISTEN"}
    assert "Traceback" not in one.log()
    one.kill9()
    eventually(lambda: not is_open(port), within=30)
    worker(port, "-P", "threads")
    assert Scrape.of(url).value("pdcp_tasks_running") >= 0


def test_with_a_pool_of_processes_it_says_that_it_cannot_and_opens_nothing(worker):
    port = free_port()
    one = worker(port, "-P", "prefork")
    assert "metrics_need_threads" in one.log()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30)


class Task:
    name = "controlplane.tasks.drains.some_task"


@pytest.mark.parametrize(("state", "outcome"), [("SUCCESS", "done"), ("FAILURE", "failed"), ("RETRY", "failed")])
def test_each_task_is_counted_once_by_what_it_came_to(state, outcome):
    before = Scrape.here([*TASKS.samples(), *RUNNING.samples()])
    exposure._begin(task_id="1")
    assert Scrape.here(RUNNING.samples()).value("pdcp_tasks_running") == before.value("pdcp_tasks_running") + 1
    exposure._end(task_id="1", task=Task(), state=state)
    exposure._end(task_id="1", task=Task(), state=state)
    grown = Scrape.here([*TASKS.samples(), *RUNNING.samples()]).grown_since(before)
    assert grown == {f"pdcp_tasks_total{{outcome={outcome},task=some_task}}": 1}


def test_one_that_was_overtaken_is_counted_as_expired_and_one_that_was_revoked_is_not():
    before = Scrape.here(TASKS.samples())
    exposure._expired(sender=Task(), expired=True)
    exposure._expired(sender=Task(), expired=False)
    assert Scrape.here(TASKS.samples()).grown_since(before) == {"pdcp_tasks_total{outcome=expired,task=some_task}": 1}
