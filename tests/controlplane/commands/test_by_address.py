"""A decode knows its prefill by the sockets of its ranks: what it reports is of the instance whose rank listens there."""

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import evidence
from controlplane.commands.by_address import MOST, instances_at
from controlplane.databases import FACTS, READER, TRAFFIC
from controlplane.domain.topology import Slot, Topology
from controlplane.models import RoomReport
from tests.controlplane.commands.on_backend import on_backend
from tests.controlplane.queries.world import World

__all__ = ["on_backend"]

pytestmark = pytest.mark.usefixtures("on_backend")


def item(instance: str, room: int = 7) -> dict:
    return {"room": room, "instance": instance, "rung": "resolved", "result": "passed", "age_seconds": 1.0}


def test_a_rank_says_whose_room_it_is():
    World("a").launch(Topology(1, 1, 2, 1), first_port=4001)
    World("b").launch(Topology(1, 1, 1, 1), first_port=5001)
    assert instances_at(["10.0.0.1:4002", "[::ffff:10.0.0.1]:5001"]) == {
        "10.0.0.1:4002": "a",
        "[::ffff:10.0.0.1]:5001": "b",
    }
    said = [item("10.0.0.1:4001"), item("b", 8), item("10.0.0.1:9", 9)]
    assert evidence.report_evidence("d/1", said) == evidence.Kept(2, 0, ("10.0.0.1:9",))
    assert [(row.room, row.instance) for row in RoomReport.objects.using(TRAFFIC).order_by("room")] == [
        (7, "a"),
        (8, "b"),
    ]


def test_an_address_that_two_instances_have_or_that_was_left_says_nothing():
    first = World("a")
    first.launch(Topology(1, 1, 1, 1), first_port=4001)
    World("b").put(Slot(0, 0, 0, 0), Topology(1, 1, 1, 1), port=4001)
    assert instances_at(["10.0.0.1:4001"]) == {}
    first.refuse(4001)
    assert instances_at(["10.0.0.1:4001"]) == {"10.0.0.1:4001": "b"}


def test_it_is_looked_up_once_between_two_changes():
    first = World("a")
    first.launch(Topology(1, 1, 1, 1), first_port=4001)
    assert instances_at(["10.0.0.1:4001", "10.0.0.1:4002"]) == {"10.0.0.1:4001": "a"}
    with CaptureQueriesContext(connections[FACTS]) as facts, CaptureQueriesContext(connections[READER]) as read:
        assert instances_at(["10.0.0.1:4001", "10.0.0.1:4002"]) == {"10.0.0.1:4001": "a"}
    assert (len(facts), len(read)) == (0, 1), "the ledger's head alone"
    World("b").launch(Topology(1, 1, 1, 1), first_port=4002)
    assert instances_at(["10.0.0.1:4001", "10.0.0.1:4002"]) == {"10.0.0.1:4001": "a", "10.0.0.1:4002": "b"}


def test_what_is_no_address_is_looked_for_nowhere():
    assert instances_at(["", "a:b", "[fd00::1]", "host:70000000", ":1", "not an ip:1"]) == {}
    assert len(instances_at(f"10.0.0.1:{port}" for port in range(1, 5 * MOST))) == 0
