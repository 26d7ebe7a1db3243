"""Workers with heartbeats as rows: who is late is named first, and however many there are, one query tells of them."""

from __future__ import annotations

import doctest
import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.bootstrap import lateness
from controlplane.databases import FACTS, READER
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import EventRow
from controlplane.models import Instance, WorkerLease
from controlplane.queries import clockwork, events, workers
from tests.controlplane.queries.world import World


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def lease(world: World, worker: str, slots: str = "", *, late: bool = False) -> None:
    now = time.time()
    times = {"seen_at": now - 40, "expires_at": now - 25, "late_since": now - 20 if late else None}
    WorkerLease.objects.using(FACTS).create(worker=worker, instance_id=world.row.pk, token="t", slots=slots, **times)


def test_the_examples_hold():
    for module in (workers, clockwork, lateness):
        assert doctest.testmod(module).failed == 0


def test_nobody_who_sends_heartbeats_is_nothing_to_tell():
    World("prefill-a").launch(Topology(1, 1, 2, 1), first_port=4000)
    assert workers.beating("prefill-a") == workers.Beating()
    assert workers.told(workers.Beating(), now=1.0) == [] and workers.late_by_instance() == ()


def test_those_that_are_late_are_named_and_the_rest_are_counted():
    a, b = World("prefill-a"), World("prefill-b")
    for number in range(3):
        lease(a, f"fine-{number}")
    for number in range(6):
        lease(a, f"late-{number}", f"0.0.{number}.0", late=True)
    lease(b, "one", "0.1.0.0 0.1.1.0", late=True)
    found = workers.beating("prefill-a")
    assert (found.count, found.late, [row.worker for row in found.named]) == (9, 6, [f"late-{n}" for n in range(4)])
    told = workers.told(found, now=time.time())
    assert told[0].startswith("Worker late-0 (dp0 tp0) is late: it was last heard from 40 s ago, and its lease is 15 s")
    assert told[4:] == ["So are 2 more workers.", "Whether ranks count is decided by probes, not by heartbeats."]
    first, second = workers.late_by_instance()
    assert (first.instance, first.count, first.named[0]) == ("prefill-a", 6, "late-0 (dp0 tp0)")
    assert (second.instance, second.count, second.named) == ("prefill-b", 1, ("one (dp0 cp1 tp0–1)",))
    # Of what is retired nobody need be told.
    Instance.objects.using(FACTS).filter(pk=b.row.pk).update(intent="retired")
    assert [one.instance for one in workers.late_by_instance()] == ["prefill-a"]


def test_it_costs_one_query_however_many_there_are():
    world = World("prefill-a")
    for number in range(30):
        lease(world, f"w{number}", late=number % 2 == 0)
    with CaptureQueriesContext(connections[READER]) as caught:
        workers.beating("prefill-a")
    assert len(caught) == 1


def test_what_became_of_a_worker_is_told_in_a_sentence():
    def said(kind: str, **data: object) -> str:
        return events.sentence(EventRow(1, 0.0, kind, "a", "", "", data))

    late = said("worker.late", worker="w", slots=[[0, 0, 1, 0]], lease_seconds=15.0)
    assert late == "worker w (dp0 tp1) is late: nothing was heard from it within its lease of 15 s"
    assert said("worker.back", worker="w", late_seconds=40.5) == "worker w was heard from again, 40 s after it was late"
    assert said("worker.gone", worker="w", why="its launch is over") == (
        "worker w is not waited for any more: its launch is over"
    )
