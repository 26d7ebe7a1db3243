"""Rounds in the database: one that is sent many times is one; what was lost is said; failures are kept, and few of them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from controlplane.commands import rounds
from controlplane.commands.rounds import Plan, Runner
from controlplane.databases import TRAFFIC
from controlplane.models import TaskFailure, TaskRound

PLAN = Plan("check_drains", every=1.0, within=30.0)
ANNA, BERT = Runner("host-a pid 1", "a 1 x"), Runner("host-b pid 2", "b 2 y")


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def row() -> TaskRound:
    return TaskRound.objects.using(TRAFFIC).get(task=PLAN.task)


def earlier(seconds: float) -> None:
    """The newest round began so much longer ago."""
    TaskRound.objects.using(TRAFFIC).update(began_at=row().began_at - seconds)


def one_round(outcome: str = "ok", error: str = "", took: float = 0.25) -> None:
    begun = rounds.begin(PLAN, ANNA, sent_by="gen9@host-a")
    assert begun is not None
    rounds.end(begun, outcome=outcome, took=took, error=error)
    earlier(1.0)


def test_a_round_is_written_when_it_begins_and_when_it_is_over():
    before = time.time()
    begun = rounds.begin(PLAN, ANNA, sent_by="gen9@host-a")
    assert begun is not None and begun.number == 1
    found = row()
    assert (found.number, found.done, found.ran_by, found.sent_by) == (1, 0, "host-a pid 1", "gen9@host-a")
    assert before - 5 < found.began_at < time.time() + 5
    rounds.end(begun, outcome="ok", took=0.25)
    found = row()
    assert (found.done, found.outcome, found.took_seconds, found.error) == (1, "ok", 0.25, "")
    assert found.ok_at == found.ended_at >= found.began_at


def test_the_same_round_is_not_begun_twice_and_the_next_one_is_when_it_is_due():
    one_round()
    begun = rounds.begin(PLAN, ANNA)
    assert begun is not None and begun.number == 2
    rounds.end(begun, outcome="ok", took=0.1)
    assert rounds.begin(PLAN, BERT) is None and rounds.begin(PLAN, ANNA) is None
    earlier(0.8)
    assert rounds.begin(PLAN, BERT) is not None


def test_of_many_that_take_a_round_at_once_one_has_it():
    gate = threading.Barrier(6)

    def take(number: int) -> bool:
        try:
            gate.wait(30)
            return rounds.begin(PLAN, Runner(f"host pid {number}", f"h {number} x")) is not None
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        for turn in range(1, 6):
            assert sum(pool.map(take, range(6))) == 1
            assert row().number == turn
            rounds.end(rounds.Begun(PLAN.task, turn, "x"), outcome="ok", took=0.0)
            earlier(1.0)


def test_while_a_round_is_under_way_the_next_waits_until_it_is_given_up_and_that_is_said():
    assert rounds.begin(PLAN, ANNA) is not None
    earlier(10.0)
    assert rounds.begin(PLAN, BERT, is_gone=lambda holder: False) is None
    earlier(25.0)
    begun = rounds.begin(PLAN, BERT, is_gone=lambda holder: False)
    assert begun is not None and begun.number == 2
    found = row()
    assert (found.done, found.outcome, found.failures, found.ran_by) == (1, "lost", 1, "host-b pid 2")
    (failure,) = TaskFailure.objects.using(TRAFFIC).all()
    assert (failure.outcome, failure.error, failure.ran_by) == ("lost", "it was not over within 30 s", "host-a pid 1")


def test_whose_process_is_gone_is_not_waited_for():
    assert rounds.begin(PLAN, ANNA) is not None
    earlier(1.0)
    asked: list[str] = []
    begun = rounds.begin(PLAN, BERT, is_gone=lambda holder: bool(asked.append(holder)) or True)
    assert begun is not None and asked == ["a 1 x"]
    assert (row().outcome, row().error) == ("lost", "the process that ran it is gone")
    # That one ends after all, or says so late: it is the past.
    rounds.end(rounds.Begun(PLAN.task, 1, "host-a pid 1"), outcome="ok", took=9.0)
    assert (row().outcome, row().done) == ("lost", 1)
    rounds.end(begun, outcome="ok", took=0.1)
    assert (row().outcome, row().failures, row().failing_since) == ("ok", 0, None)


def test_rounds_that_overlap_may_end_in_any_order():
    plan = Plan(PLAN.task, 1.0, 30.0, overlaps=True)
    first = rounds.begin(plan, ANNA)
    earlier(1.0)
    second = rounds.begin(plan, BERT)
    assert first is not None and second is not None
    rounds.end(second, outcome="ok", took=0.1)
    rounds.end(first, outcome="failed", took=2.0, error="late")
    assert (row().done, row().outcome, row().failures) == (2, "ok", 0)


def test_failures_in_a_row_are_counted_and_those_that_are_alike_are_one_line():
    one_round()
    for _ in range(4):
        one_round("failed", "OperationalError: locked")
    found = row()
    assert (found.failures, found.outcome, found.error) == (4, "failed", "OperationalError: locked")
    (failure,) = TaskFailure.objects.using(TRAFFIC).all()
    assert (failure.count, failure.number, failure.since) == (4, 5, found.failing_since)
    one_round("failed", "another thing")
    one_round()
    assert (row().failures, row().error) == (0, "")
    # The same again, after it went well: that is another story.
    one_round("failed", "OperationalError: locked")
    errors = TaskFailure.objects.using(TRAFFIC).order_by("id").values_list("error", "count")
    assert list(errors) == [("OperationalError: locked", 4), ("another thing", 1), ("OperationalError: locked", 1)]


def test_however_much_fails_few_failures_are_kept_and_none_is_longer_than_it_may_be():
    for number in range(rounds.FAILURES_KEPT + 5):
        one_round("failed", f"{number} " + "x" * 5000)
    kept = list(TaskFailure.objects.using(TRAFFIC).order_by("id").values_list("error", flat=True))
    assert len(kept) == rounds.FAILURES_KEPT
    assert kept[-1].startswith(f"{rounds.FAILURES_KEPT + 4} ") and len(kept[-1]) == rounds.LONGEST_ERROR
    assert TaskRound.objects.using(TRAFFIC).count() == 1


def test_an_error_that_holds_what_no_table_takes_is_kept_all_the_same():
    one_round("failed", "ValueError: a\x00b \ud800")
    assert (row().done, row().error) == (1, "ValueError: a\\0b ?")
