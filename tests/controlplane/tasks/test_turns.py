"""A task as a round: claimed before it begins, whoever sends it; nothing waits for a database that is away."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery.app.trace import build_tracer
from django.db import connections
from django.db.utils import OperationalError

from controlplane.celery import app
from controlplane.commands import rounds
from controlplane.commands.rounds import Plan
from controlplane.databases import TRAFFIC
from controlplane.models import TaskFailure, TaskRound
from controlplane.tasks import turns
from controlplane.tasks.process import is_gone, this_process
from controlplane.tasks.samples import forget_old_samples
from controlplane.tasks.turns import Leapt, Round, key_of, take

PLAN = Plan("check_drains", every=0.001, within=30.0)
"""Due all the time: what is tested is not the waiting."""


@pytest.fixture(autouse=True)
def _fresh(on_backend):
    turns._places.clear()
    yield
    turns._places.clear()


def row() -> TaskRound:
    return TaskRound.objects.using(TRAFFIC).get(task=PLAN.task)


def test_every_task_of_ours_is_a_round_that_is_acknowledged_when_it_is_over():
    ours = [task for name, task in app.tasks.items() if name.startswith("controlplane.")]
    assert {task.name for task in ours} >= set(turns.schedule())
    for task in ours:
        assert isinstance(task, Round) and task.acks_late and task.reject_on_worker_lost and task.ignore_result
        assert 0 < task.within_seconds < 300 and 1 <= task.at_once <= 3


def sent(**headers: object) -> None:
    """As a worker gets it."""
    name = forget_old_samples.name
    trace = build_tracer(name, app.tasks[name], app=app)
    trace("id-1", (), {}, {"id": "id-1", "origin": "gen77@host-a", "delivery_info": {}, **headers})


def test_what_beat_sends_is_a_round_and_what_somebody_asks_for_is_none():
    forget_old_samples()
    sent()
    assert not TaskRound.objects.using(TRAFFIC).exists()
    sent(celery_beat_task=True)
    found = TaskRound.objects.using(TRAFFIC).get()
    assert (found.task, found.number, found.done, found.outcome) == ("forget_old_samples", 1, 1, "ok")
    assert (found.every_seconds, found.sent_by, found.ran_by) == (300.0, "gen77@host-a", this_process().name)
    sent(celery_beat_task=True)
    assert TaskRound.objects.using(TRAFFIC).get().number == 1


def test_messages_that_waited_for_a_worker_are_one_round():
    # They last for minutes, so that a worker whose clock is ahead takes them for over as little as one whose clock is not.
    for _ in range(40):
        sent(celery_beat_task=True)
    assert TaskRound.objects.using(TRAFFIC).get().number == 1


def test_what_fails_is_kept_and_raised():
    def fail() -> None:
        raise ZeroDivisionError("once")

    with pytest.raises(ZeroDivisionError):
        take(PLAN, fail)
    assert (row().outcome, row().error, row().failures) == ("failed", "ZeroDivisionError: once", 1)
    time.sleep(0.002)
    assert take(PLAN, lambda: None)
    assert (row().outcome, row().failures) == ("ok", 0)


def test_a_process_runs_as_many_rounds_of_a_task_at_once_as_that_may_and_gives_the_places_back():
    go, begun = threading.Event(), threading.Semaphore(0)
    plan = Plan(PLAN.task, PLAN.every, PLAN.within, overlaps=True)

    def work() -> None:
        begun.release()
        go.wait(30)

    def one() -> bool:
        try:
            time.sleep(0.002)
            return take(plan, work, at_once=2)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        running = []
        for _ in range(2):
            running.append(pool.submit(one))
            assert begun.acquire(timeout=30)
        assert turns.longest_running(time.monotonic() + 100) > 99
        assert not one()
        go.set()
        assert all(future.result(30) for future in running)
    assert turns.longest_running(time.monotonic()) == 0.0
    assert one() and row().number == row().done == 3


def test_while_the_database_is_away_nothing_runs_nothing_is_raised_and_nobody_piles_up(monkeypatch):
    asked, hang = [], threading.Event()

    def away(*_: object, **__: object) -> None:
        asked.append(1)
        hang.wait(30)
        raise OperationalError("away")

    monkeypatch.setattr(rounds, "begin", away)
    with ThreadPoolExecutor(4) as pool:
        waiting = pool.submit(take, PLAN, lambda: None)
        while not asked:
            time.sleep(0.001)
        # The others do not wait beside it.
        assert [pool.submit(take, PLAN, lambda: None).result(30) for _ in range(6)] == [False] * 6
        hang.set()
        assert waiting.result(30) is False
    assert len(asked) == 1
    monkeypatch.undo()
    assert take(PLAN, lambda: None)


def test_an_end_that_could_not_be_written_is_written_before_the_next_round(monkeypatch):
    def away(*_: object, **__: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(rounds, "end", away)
    assert take(PLAN, lambda: None)
    assert (row().number, row().done) == (1, 0)
    monkeypatch.undo()
    time.sleep(0.002)
    assert take(PLAN, lambda: None)
    assert (row().number, row().done, row().outcome) == (2, 2, "ok")
    assert not TaskFailure.objects.using(TRAFFIC).exists()


def test_whose_process_is_gone_is_known_on_its_own_host_and_nowhere_else():
    own = this_process().holder
    assert not is_gone(own)
    host = own.partition(" ")[0]
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert is_gone(f"{host} {child.pid} abcd")
    assert not is_gone(f"another/host/ns {child.pid} abcd")
    # In a container that starts anew the number may be ours now; and what lives is not gone, whoever it is.
    assert is_gone(f"{host} {os.getpid()} abcd")
    assert not is_gone(f"{host} {os.getppid()} abcd")
    assert not is_gone("") and not is_gone("nonsense") and not is_gone(f"{host} x y")


def test_a_task_is_called_by_its_short_name():
    assert key_of("controlplane.tasks.drains.check_drains") == "check_drains"


def test_what_deletes_by_age_waits_where_the_clock_has_leapt_and_says_so():
    """A host that has just started may have any clock, and what is deleted by it is gone."""
    ran: list[int] = []

    def due(*, ago: float, deletes: bool = True) -> bool:
        turns._places.clear()
        TaskRound.objects.using(TRAFFIC).filter(task=PLAN.task).update(began_at=rounds.clock() - ago)
        return take(PLAN, lambda: ran.append(1), deletes=deletes)

    assert take(PLAN, lambda: ran.append(1), deletes=True) and len(ran) == 1
    assert due(ago=6 * 86_400.0) and len(ran) == 2, "nobody was there for a week-end"
    for ago in (30 * 365 * 86_400.0, 60.0):
        with pytest.raises(Leapt, match="the clock went ahead by"):
            due(ago=ago)
    assert len(ran) == 2 and (row().failures, row().outcome) == (2, "failed")
    assert due(ago=60.0, deletes=False) and len(ran) == 3, "the others go on"
    with pytest.raises(Leapt):
        due(ago=30 * 365 * 86_400.0)
    TaskRound.objects.using(TRAFFIC).update(failing_since=rounds.clock() - 3601)
    assert due(ago=60.0) and len(ran) == 4 and row().failures == 0, "an hour was enough to set it right"


def test_deleted_is_by_the_clock_of_the_process_which_must_not_be_ahead_of_that_of_the_database(monkeypatch):
    assert take(PLAN, lambda: None, deletes=True)
    turns._places.clear()
    database = rounds.clock()
    monkeypatch.setattr(rounds, "clock", lambda: database + 60)
    monkeypatch.setattr(rounds.time, "time", lambda: database + 3e9)
    with pytest.raises(Leapt):
        take(PLAN, lambda: None, deletes=True)


def test_every_task_that_deletes_by_age_says_so():
    deleting = {key_of(name) for name, task in app.tasks.items() if getattr(task, "deletes", False)}
    assert deleting == {
        *("compact_ledger", "archive_ended_launches", "sweep_leftovers", "forget_old_reports"),
        *("delete_old_attempts_and_sessions", "forget_old_alarms", "forget_old_samples"),
    }
