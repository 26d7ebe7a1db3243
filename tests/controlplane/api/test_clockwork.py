"""The clockwork and the workers of an instance, as the API tells them."""

from __future__ import annotations

import time

from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.topology import Topology
from controlplane.models import TaskFailure, WorkerLease
from controlplane.queries.clockwork import schedule
from tests.controlplane.queries.rounds import all_run, stand
from tests.controlplane.queries.world import World


def test_every_task_is_told_whether_or_not_it_ever_ran(viewer):
    said = viewer.get("clockwork").json
    assert said["fine"] is False and {task["task"] for task in said["tasks"]} == set(schedule())
    assert {task["standing"] for task in said["tasks"]} == {"never"} and said["runners"] == said["failures"] == []


def test_when_they_ran_how_that_ended_and_who_ran_them(viewer):
    all_run(at=time.time() - 1.5)
    stand("reconcile_routers", began_at=time.time() - 60, failures=4, outcome="failed", error="ValueError: no")
    failed = {"outcome": "failed", "error": "ValueError: no", "ran_by": "host-a pid 11", "number": 7}
    TaskFailure.objects.using(TRAFFIC).create(task="reconcile_routers", since=900.0, at=1000.0, count=4, **failed)
    said = viewer.get("clockwork").json
    tasks = {task["task"]: task for task in said["tasks"]}
    drains, routers = tasks["check_drains"], tasks["reconcile_routers"]
    assert (drains["standing"], drains["outcome"], drains["round"], drains["running"]) == ("runs", "ok", 7, False)
    assert 0.4 < drains["overdue_seconds"] < 60 and drains["every_seconds"] == 1.0
    assert routers["standing"] == "stopped" and "has stopped" in routers["sentence"] and not said["fine"]
    (failure,) = said["failures"]
    assert (failure["count"], failure["error"], failure["at"]) == (4, "ValueError: no", "1970-01-01T00:16:40.000Z")
    kinds = [(one["kind"], one["name"], one["there"]) for one in said["runners"]]
    assert kinds == [("worker", "host-a pid 11", True), ("beat", "host-a pid 12", True)]


def lease(world: World, worker: str, slots: str, **columns: object) -> None:
    now = time.time()
    times = {"seen_at": now - 40, "expires_at": now - 25, "late_since": None}
    said = {"worker": worker, "instance_id": world.row.pk, "token": "t", "slots": slots}
    WorkerLease.objects.using(FACTS).create(**{**said, **times, **columns})


def test_workers_of_an_instance_are_told_and_who_is_late_is_part_of_its_story(viewer):
    world = World("prefill-a")
    world.launch(Topology(1, 1, 2, 1), first_port=4000)
    lease(world, "w0", "0.0.0.0")
    lease(world, "w1", "0.0.1.0", late_since=time.time() - 20)
    rows = viewer.get("instances/prefill-a/workers").json["items"]
    assert [(row["worker"], row["late"], row["slots"]) for row in rows] == [
        ("w0", False, ["dp0.cp0.tp0.pp0"]),
        ("w1", True, ["dp0.cp0.tp1.pp0"]),
    ]
    assert [row["worker"] for row in viewer.get("instances/prefill-a/workers?late=true").json["items"]] == ["w1"]
    told = viewer.get("explain/instance/prefill-a").json
    assert "Worker w1 (dp0 tp1) is late: it was last heard from 40 s ago, and its lease is 15 s." in " ".join(
        told["sentences"]
    )
    assert "decided by probes" in told["sentences"][-1]
    # That alone keeps nobody away.
    assert viewer.get("explain/routable").json["items"][0]["routable"]
    assert viewer.get("instances/nobody/workers").status == 404
