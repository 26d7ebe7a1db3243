"""The clockwork itself: two beats make one round, whoever is killed in the middle of one leaves nothing stuck."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

import tests.support.inside  # noqa: F401  isort: skip
from django.db import connections

from controlplane.databases import TRAFFIC
from controlplane.models import TaskFailure, TaskRound
from controlplane.tasks.keeper import EXIT_SOFTWARE
from tests.controlplane.commands.on_backend import inside
from tests.doubles.muting import Muting
from tests.support.machine import slowness
from tests.support.plugin import Backend
from tests.support.processes import Child
from tests.support.redis import Redis

GENEROUS_SECONDS = 60.0
OFTEN = "check_drains"
HANGS = "read_observe_file"
"""Reads a file: one that is a pipe to which nobody writes holds its round up for ever."""

IMPATIENT = """
import os, sys, django
os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
django.setup()
from controlplane.tasks import keeper
keeper.WEDGED_SECONDS, keeper.DEAF_SECONDS, keeper.ASK_SECONDS, keeper.LEAVE_SECONDS = 2.0, 2.0, 0.5, 1.0
from celery.bin.celery import main
sys.exit(main())
"""


class Clockwork:
    """Workers with beats in them, on one database and one Redis."""

    def __init__(self, backend: Backend, directory: Path, stack: ExitStack) -> None:
        self.directory, self._stack = directory, stack
        self.redis = Redis(directory)
        stack.callback(self.redis.kill9)
        self.redis.start()
        self.observed = directory / "observed"
        knobs = {"PDCP_OBSERVE_FILE": str(self.observed), "REDIS_URL": self.redis.url, "PDCP_ENV_FILE": "/dev/null"}
        self.env = {**backend.env, **knobs}
        self._count = 0

    def start(self, *more: str, run: tuple[str, ...] = ("-m", "celery")) -> Child:
        self._count += 1
        words = "-A controlplane -q worker -P threads -c 4 --without-gossip --without-mingle -l INFO"
        argv = [sys.executable, *run, *words.split(), "-n", f"w{self._count}@%h", *more]
        child = Child(argv, env=self.env, log=self.directory / f"worker-{self._count}.log")
        self._stack.callback(child.kill9)
        child.wait_for_line("celery ready", timeout=GENEROUS_SECONDS)
        return child

    def hold_up(self) -> None:
        os.mkfifo(self.observed)

    def let_go(self) -> None:
        """Whoever waits for the pipe waits on; who comes next finds an empty file."""
        self.observed.unlink()
        self.observed.write_text("[]")


@pytest.fixture
def clockwork(sqlite_backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clockwork]:
    with ExitStack() as stack:
        stack.enter_context(inside(sqlite_backend))
        yield Clockwork(sqlite_backend, tmp_path_factory.mktemp("c"), stack)


def task(name: str) -> TaskRound:
    return TaskRound.objects.using(TRAFFIC).get(task=name)


def until(true: Callable[[], Any]) -> Any:
    end = time.monotonic() + GENEROUS_SECONDS
    while True:
        try:
            found = true()
        except TaskRound.DoesNotExist:
            found = None
        if found:
            return found
        assert time.monotonic() < end, list(TaskRound.objects.using(TRAFFIC).values())
        time.sleep(0.05)


def goes_on(name: str, rounds: int = 2) -> None:
    """So many more of its rounds end well."""
    done = task(name).done
    until(lambda: task(name).done >= done + rounds and task(name).outcome == "ok")


def is_held(row: TaskRound) -> bool:
    """It runs for longer than a file takes to be read."""
    return row.began_at is not None and time.time() - row.began_at > 1.0


def beat_of(worker: Child) -> psutil.Process:
    """The process that sends, inside a worker with -B."""
    return until(lambda: next(iter(psutil.Process(worker.pid).children()), None))


def is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_two_beats_make_one_round_and_when_a_worker_is_killed_in_the_middle_of_one_the_other_takes_it_up(
    clockwork: Clockwork,
):
    workers = [clockwork.start("-B"), clockwork.start("-B")]
    until(lambda: task(OFTEN).done >= 1)
    clockwork.hold_up()
    held = until(lambda: task(HANGS).number > task(HANGS).done and is_held(task(HANGS)) and task(HANGS)).number
    began, number = time.time(), task(OFTEN).number
    goes_on(OFTEN, 3)
    # Each beat sends one a second; alone, each round would come twice.
    assert task(OFTEN).number - number <= (time.time() - began) / 0.75 + 2
    # Held up for ever is one round alone: the others went on, and it was not begun a second time.
    assert (task(HANGS).number, task(HANGS).done) == (held, held - 1)
    assert not TaskFailure.objects.using(TRAFFIC).exists()
    (victim,) = [one for one in workers if task(HANGS).ran_by.endswith(f"pid {one.pid}")]
    (other,) = [one for one in workers if one is not victim]
    orphan = beat_of(victim)
    clockwork.let_go()
    victim.kill9()
    # Nobody would end a beat that outlived its worker.
    until(lambda: is_over(orphan))
    found = until(lambda: task(HANGS).done > held and task(HANGS))
    assert found.outcome == "ok" and found.ran_by.endswith(f"pid {other.pid}")
    lost = TaskFailure.objects.using(TRAFFIC).get(task=HANGS)
    assert (lost.outcome, lost.error, lost.count) == ("lost", "the process that ran it is gone", 1)
    assert lost.ran_by.endswith(f"pid {victim.pid}")
    goes_on(OFTEN)
    # Both beats sent everything when they began.
    assert task("delete_old_attempts_and_sessions").number == 1


def test_redis_away_a_database_that_is_locked_and_a_beat_that_is_killed_leave_nothing_stuck(clockwork: Clockwork):
    worker = clockwork.start("-B")
    until(lambda: task(OFTEN).done >= 1)
    clockwork.redis.kill9()
    until(lambda: "beat cannot send" in worker.log() and task(OFTEN).number == task(OFTEN).done)
    number = task(OFTEN).number
    clockwork.redis.start()
    began = time.monotonic()
    until(lambda: task(OFTEN).done > number)
    # Celery's own patience grows to half a minute.
    assert time.monotonic() - began < 12 * slowness()
    # What was sent meanwhile is not made up for.
    number, began = task(OFTEN).number, time.monotonic()
    goes_on(OFTEN)
    assert task(OFTEN).number - number <= (time.monotonic() - began) / 0.75 + 2

    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        until(lambda: "round_not_begun" in worker.log() or "round_not_ended" in worker.log())
        cursor.execute("ROLLBACK")
    for name in (OFTEN, "reconcile_routers", HANGS):
        goes_on(name, 1)
    assert worker.exit_code is None and not TaskFailure.objects.using(TRAFFIC).filter(outcome="lost").exists()

    # Nobody starts an embedded beat again; the worker ends in order, for whoever starts it.
    beat_of(worker).kill()
    assert worker.wait(GENEROUS_SECONDS) == EXIT_SOFTWARE
    assert "beat is gone" in worker.log()


def test_a_round_that_never_ends_is_ended_with_its_worker_and_that_is_said(clockwork: Clockwork):
    clockwork.hold_up()
    worker = clockwork.start("-B", run=("-c", IMPATIENT))
    until(lambda: task(HANGS).number == 1)
    assert worker.wait(GENEROUS_SECONDS) == EXIT_SOFTWARE
    assert "a round never ends" in worker.log()


def test_a_worker_whose_connection_to_redis_died_without_a_word_starts_anew(clockwork: Clockwork):
    """As after a fail-over, or behind a cable that was cut: it would wait for hours."""
    path = clockwork.directory / "muting.sock"
    between = Muting(path, clockwork.redis.socket)
    clockwork.env["REDIS_URL"] = f"unix://{path}?db=0"
    try:
        worker = clockwork.start(run=("-c", IMPATIENT))
        with redis.Redis(unix_socket_path=str(clockwork.redis.socket)) as direct:
            # Messages that nobody understands are taken, too.
            direct.rpush("pdcp:celery", "{}")
            until(lambda: not direct.llen("pdcp:celery"))
            between.mute()
            direct.rpush("pdcp:celery", "{}")
            assert worker.wait(GENEROUS_SECONDS) == EXIT_SOFTWARE
        assert "messages wait and none arrives" in worker.log()
    finally:
        between.close()
