"""The fleet as rows: readiness, who is missing, who left, and a number of SQL queries that does not grow."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.databases import FACTS, READER
from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.models import Rank
from controlplane.queries import fleet
from tests.controlplane.queries.world import World

DP2_TP4 = Topology(2, 1, 4, 1)
FLEET_QUERIES = 13


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def row(name: str = "prefill-a"):
    return fleet.instance(name, now=time.time())[0]


def selects(work) -> int:
    with CaptureQueriesContext(connections[READER]) as captured:
        work()
    return sum("SELECT" in query["sql"] for query in captured)


def test_an_incomplete_launch_counts_distinct_ranks_and_names_who_is_missing():
    world = World()
    ports = world.launch(DP2_TP4, first_port=4000, skip=2)
    world.put(Slot(0, 0, 0, 0), DP2_TP4, port=ports[0])
    found = row()
    assert (found.registered, found.expected, found.complete, found.serving) == (6, 8, False, False)
    assert found.current.missing == (Slot(1, 0, 2, 0), Slot(1, 0, 3, 0))
    assert found.current.missing_sentence() == "6/8, missing dp1 tp2, dp1 tp3"
    assert (found.health, found.state) == (200, "incomplete")


def test_a_complete_launch_serves_until_it_loses_a_rank_and_again_after_the_flush():
    world = World()
    ports = world.launch(DP2_TP4, first_port=4000)
    assert (row().serving, row().state, row().current.missing_sentence()) == (True, "serving", "8/8")
    world.refuse(ports[3])
    lost = row()
    assert (lost.serving, lost.complete, lost.health, lost.state) == (False, False, 503, "incomplete")
    assert lost.health_reason == "launch 1 served and lost dp0 cp0 tp3 pp0"
    assert [one.health_reason for one in fleet.fleet(now=time.time()).instances] == [lost.health_reason]
    (left,) = lost.left
    assert (left.name, left.address, left.greeted) == ("dp0 tp3", f"10.0.0.1:{ports[3]}", True)
    assert left.left_reason.startswith("greeted before")
    world.put(Slot(0, 0, 3, 0), DP2_TP4, port=4100)
    world.probe(Contact.UP, 4100, *ports[:3], *ports[4:])
    assert (row().complete, row().serving, row().state) == (True, False, "flushing")
    world.end_flush()
    assert row().serving


def test_a_full_launch_is_not_complete_before_its_probe_round():
    world = World()
    for tp in range(2):
        world.put(Slot(0, 0, tp, 0), Topology(1, 1, 2, 1), port=4000 + tp)
    assert (row().registered, row().complete, row().state) == (2, False, "unproven")
    world.probe(Contact.UP, 4000, 4001)
    assert (row().complete, row().state) == (True, "serving")


def test_a_candidate_shows_its_own_progress_beside_a_current_launch_that_serves():
    world = World()
    world.launch(DP2_TP4, first_port=4000)
    world.launch(DP2_TP4, first_port=5000, skip=3)
    found = row()
    assert found.serving
    assert (found.current.number, found.candidate.number) == (1, 2)
    assert found.candidate.missing_sentence(limit=2) == "5/8, missing dp1 tp1, dp1 tp2 and 1 more"


def test_flagged_ranks_are_counted_and_named_sixteen_at_most():
    world = World()
    topology = Topology(1, 1, 20, 1)
    for slot in topology.slots():
        world.put(slot, topology, port=4000 + slot.tp, flags=("unprobed", "outside-networks"))
    found = row()
    assert found.flagged_count == 20
    assert [rank.slot.tp for rank in found.flagged] == list(range(16))
    assert found.complete


def test_a_replaced_launch_is_history_and_its_ranks_are_not_counted():
    world = World()
    old = world.launch(DP2_TP4, first_port=4000)
    world.launch(DP2_TP4, first_port=5000)
    world.refuse(*old)
    world.probe(Contact.UP, *range(5000, 5008))
    found = row()
    assert (found.current.number, found.candidate, found.registered) == (2, None, 8)
    states = [(launch.number, launch.state) for launch in fleet.launches(found.id)]
    assert states in ([(2, "current"), (1, "replaced")], [(2, "current"), (1, "dropped")])
    assert {rank.launch for rank in fleet.ranks(found.id, term=1)} == {2}


def test_only_what_this_term_probed_is_verified():
    world = World()
    world.launch(Topology(1, 1, 2, 1), first_port=4000)
    id_ = row().id
    assert all(rank.verified for rank in fleet.ranks(id_, term=1))
    assert not any(rank.verified for rank in fleet.ranks(id_, term=2))


def test_an_unknown_name_is_refused_and_an_empty_fleet_is_empty():
    assert fleet.fleet(now=time.time()).instances == ()
    with pytest.raises(Refused, match="no instance is named ghost"):
        row("ghost")


def test_the_number_of_queries_does_not_grow_with_the_fleet():
    def read() -> None:
        fleet.fleet(now=time.time())

    assert selects(read) == FLEET_QUERIES
    for number in range(3):
        world = World(f"prefill-{number}")
        ports = world.launch(DP2_TP4, first_port=4000, skip=number)
        world.refuse(ports[0])
        world.launch(DP2_TP4, first_port=5000, skip=1)
    assert selects(read) == FLEET_QUERIES
    assert selects(lambda: fleet.instance("prefill-1", now=time.time())) == FLEET_QUERIES
    assert [instance.name for instance in fleet.fleet(now=time.time()).instances] == [
        "prefill-0",
        "prefill-1",
        "prefill-2",
    ]


def test_instances_share_the_listener_unless_they_have_a_port_or_ask_only():
    from controlplane.commands import instances

    World("a"), World("b")
    instances.add("c", own_port=9101, actor="anna")
    instances.add("d", role="decode", actor="anna")
    instances.add("e", actor="anna")
    instances.retire("e", actor="anna")
    assert fleet.fleet(now=time.time()).sharing == ("a", "b")


def test_a_large_launch_that_misses_one_rank_is_read_at_once():
    world = World()
    world.put(Slot(0, 0, 0, 0), Topology(4, 1, 1000, 1), port=1)
    slots = [(dp, tp) for dp in range(4) for tp in range(1000)][1:-1]
    Rank.objects.using(FACTS).bulk_create(
        [
            Rank(
                instance_id=world.row.pk,
                launch=1,
                dp=dp,
                cp=0,
                tp=tp,
                pp=0,
                ip="10.0.0.1",
                port=tp + 1,
                first_at=1,
                seen_at=1,
            )
            for dp, tp in slots
        ],
        batch_size=500,
    )
    # Of this thread: what others do on the machine does not count.
    begun = time.thread_time()
    assert row().current.missing_sentence() == "3999/4000, missing dp3 tp999"
    # Counting the launch anew for each of its ranks took seconds.
    assert time.thread_time() - begun < 1
