"""Clockwork: every task with its last round, what is wrong said first, and who runs it; asked of a constant number of queries."""

from __future__ import annotations

import csv
import doctest
import io
import time

import pytest

from controlplane.databases import TRAFFIC
from controlplane.models import TaskFailure
from controlplane.queries.clockwork import schedule
from dashboard.presenters import clockwork
from tests.controlplane.queries.rounds import all_run, stand
from tests.dashboard.conftest import queries, text_of


def test_the_examples_of_the_presenter_hold():
    assert doctest.testmod(clockwork).failed == 0


def test_where_nothing_ever_ran_the_page_teaches_the_command(viewer):
    said = viewer.text("/clockwork/")
    assert "Has never run." in said and "celery -A controlplane worker -P threads -c 8 -B" in said
    assert said.count("never ran") == len(schedule()) and "Nothing has failed of late." in said


def test_each_task_says_what_it_does_when_it_ran_how_that_ended_and_by_whom(viewer):
    all_run(at=time.time() - 0.2)
    said = viewer.text("/clockwork/")
    assert f"Runs. All of {len(schedule())} tasks are on time." in said
    for key, (title, _) in schedule().items():
        assert title in said and key in said
    assert said.count("host-a pid 11") == len(schedule()) + 1 and "host-a pid 12" in said
    assert f"sent the newest round of {len(schedule())} tasks" in said


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"began_at": -60.0}, "Does not run. 1 task stopped."),
        ({"began_at": -6.0}, "Runs, but not all of it. 1 task late."),
        ({"failures": 3, "outcome": "failed", "error": "ValueError: no"}, "Runs, but not all of it. 1 task failing."),
    ],
)
def test_what_is_wrong_is_said_first(viewer, columns, said):
    now = time.time()
    all_run(at=now)
    stand("check_drains", **{name: now + value if name == "began_at" else value for name, value in columns.items()})
    found = viewer.text("/clockwork/", parts="tasks")
    assert said in found and str(columns.get("error", "")) in found


def test_a_round_under_way_is_said_to_be(viewer):
    all_run(at=time.time())
    stand("check_drains", number=8)
    assert "under way" in viewer.text("/clockwork/", parts="tasks")


def test_what_failed_is_told_once_with_how_often(viewer):
    all_run()
    now = time.time()
    said = {"outcome": "failed", "error": "OperationalError: <locked>", "ran_by": "host-a pid 11", "number": 9}
    TaskFailure.objects.using(TRAFFIC).create(task="check_drains", since=now - 90, at=now - 5, count=17, **said)
    found = viewer.get("/clockwork/", parts="failures")
    assert "OperationalError: &lt;locked&gt;" in found
    assert "check drains failed 17" in text_of(found)


def test_the_frame_says_whether_the_clockwork_is_at_work_from_its_rounds(viewer):
    assert "clockwork not heard from, last seen unknown" in viewer.text("/", parts="frame")
    all_run(at=time.time())
    assert "clockwork at work, last seen" in viewer.text("/", parts="frame")
    stand("check_drains", began_at=time.time() - 60)
    assert "clockwork not heard from, last seen" in viewer.text("/", parts="frame")


def test_it_costs_the_same_however_much_failed(viewer):
    def count() -> int:
        with queries() as asked:
            viewer.get("/clockwork/")
        return len(asked)

    all_run()
    before = count()
    for number in range(60):
        said = {"outcome": "failed", "error": f"{number}", "number": number, "since": 1.0, "at": 1.0}
        TaskFailure.objects.using(TRAFFIC).create(task=f"t{number}", **said)
    assert count() == before
    assert "Only the newest are shown" in viewer.text("/clockwork/", parts="failures")


def test_all_of_it_is_there_to_take_away(viewer):
    all_run(at=time.time())
    rows = list(csv.DictReader(io.StringIO(viewer.get("/clockwork.csv"))))
    assert {row["task"] for row in rows} == set(schedule()) and {row["outcome"] for row in rows} == {"ok"}
