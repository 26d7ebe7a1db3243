"""`manage.py clockwork`: what runs, what does not, and the exit code that says which."""

from __future__ import annotations

import time

from controlplane.databases import TRAFFIC
from controlplane.models import TaskFailure
from controlplane.queries.clockwork import schedule
from tests.controlplane.queries.rounds import all_run, stand


def test_every_task_is_a_line_and_all_that_run_are_an_exit_code_of_0(alone):
    all_run(at=time.time() + 60)
    done = alone.run("clockwork")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["TASK", "EVERY", "STATE"] and len(lines) == 1 + len(schedule())
    assert all(title in done.stdout for title, _ in schedule().values())


def test_one_that_stopped_or_fails_is_an_exit_code_of_1_and_what_it_said_is_told(alone):
    assert alone.run("clockwork").returncode == 1
    all_run(at=time.time() + 60)
    stand("check_drains", failures=4, outcome="failed", error="ValueError: no")
    failed = {"outcome": "failed", "error": "ValueError: no", "ran_by": "host-a pid 11", "number": 7}
    TaskFailure.objects.using(TRAFFIC).create(task="check_drains", since=900.0, at=1000.0, count=4, **failed)
    code, said = alone.json("clockwork")
    assert code == 1
    task = next(one for one in said["tasks"] if one["task"] == "check_drains")
    assert (task["standing"], task["failures"], task["began_at"][-1]) == ("failing", 4, "Z")
    assert said["failures"][0]["at"] == "1970-01-01T00:16:40.000Z"
    code, said = alone.json("clockwork", "--failures", "check_drains")
    assert (code, said["failures"][0]["count"]) == (0, 4)
    done = alone.run("clockwork", "--failures", "nothing")
    assert done.returncode == 1 and "check_drains" in done.stderr
