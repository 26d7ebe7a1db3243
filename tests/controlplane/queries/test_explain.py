"""Why an instance is, or is not, serving; read aloud."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import instances
from controlplane.databases import FACTS, READER
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Slot, Topology
from controlplane.models import EngineHealth, EngineInfo, Lease
from controlplane.queries.explain import explain_instance
from tests.controlplane.queries.world import World

DP2_TP2 = Topology(2, 1, 2, 1)
EXPLAIN_QUERIES = 33


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def told(now: float | None = None, name: str = "prefill-a") -> list[str]:
    return explain_instance(name, now=time.time() if now is None else now)


def test_who_serves_is_said_in_one_sentence():
    world = World(ago=7200)
    world.launch(DP2_TP2, first_port=4000)
    assert told() == ["prefill-a is serving: launch 1, 4 ranks, complete for 2 h."]


def test_a_rank_with_nobody_behind_its_address_does_not_count_and_the_reason_is_told_once():
    world = World(ago=0)
    world.launch(DP2_TP2, first_port=4000, skip=2)
    world.refuse(4001)
    said = told(world.now + 2)
    assert said[0] == "prefill-a is not serving: 1/4, missing dp0 tp1, dp1 tp0, dp1 tp1."
    # It greeted when it was launched; this one never did:
    assert (
        said[1] == "dp0 tp1 at 10.0.0.1:4001 does not count: greeted before, and it refuses connections now (2 s ago)."
    )
    world.put(Slot(1, 0, 0, 0), DP2_TP2, port=4002)
    world.refuse(4002)
    said = told(world.now + 2)
    assert (
        "dp1 tp0 at 10.0.0.1:4002 does not count: nobody listens there, the connection was refused twice (2 s ago)."
        in said
    )
    assert "Nobody has registered as dp1 tp1 in launch 1." in said


def test_when_all_left_the_story_of_the_last_launch_is_told():
    world = World(ago=0)
    world.put(Slot(0, 0, 0, 0), Topology(1, 1, 2, 1), port=4000)
    world.refuse(4000)
    assert told(world.now + 3) == [
        "prefill-a is not serving: all ranks left, the last of them dp0 tp0 at 10.0.0.1:4000: nobody listens there, the"
        " connection was refused twice.",
        "Launch 1 was dropped 3 s ago: all of its ranks left.",
        "dp0 tp0 at 10.0.0.1:4000 does not count: nobody listens there, the connection was refused twice (3 s ago).",
    ]


def test_an_instance_nobody_registered_in_says_so_by_its_role():
    World()
    assert told() == ["prefill-a is not serving: no rank is registered."]
    instances.add("d", role="decode", actor="anna")
    assert told(name="d") == ["d is a decode: decodes ask here, they do not register."]
    instances.add("s", role="seed", actor="anna")
    row = {"instance_id": fleet_id("s"), "rank": 0, "epoch": 1, "session": "h:1", "digest": "x", "tensors": 1}
    EngineInfo.objects.using(FACTS).create(**row, total_bytes=1, state="live", at=1.0)
    assert told(name="s") == ["s has no ranks registered; 1 session of engine info is served."]


@pytest.mark.parametrize(
    ("state", "first"), [("down", "d takes no requests: its engine is down."), ("late", "d is a decode")]
)
def test_of_a_decode_whose_engine_takes_no_requests_that_is_said_first(state, first):
    instances.add("d", role="decode", engine_url="http://10.0.0.9:30000", actor="anna")
    known = {"at": "http://10.0.0.9:30000", "state": state, "why": "refused", "since": 1.0, "asked_at": 2.0}
    EngineHealth.objects.using(FACTS).create(instance_id=fleet_id("d"), **known)
    assert told(name="d")[0].startswith(first)


def fleet_id(name: str) -> int:
    from controlplane.models import Instance

    return Instance.objects.using(FACTS).get(name=name).pk


def test_a_flush_says_since_when_and_why():
    world = World(ago=0)
    ports = world.launch(DP2_TP2, first_port=4000)
    world.refuse(ports[0])
    world.put(Slot(0, 0, 0, 0), DP2_TP2, port=4100)
    world.probe(Contact.UP, 4100, *ports[1:])
    said = told(world.now + 5)
    assert said[0] == "prefill-a is complete, but not serving until every decode has dropped what it cached of it."
    assert said[1] == "/health has answered 503 for 5 s: complete again; decodes may still hold old addresses."


def test_a_full_candidate_that_waits_says_for_whom_and_what_would_end_the_wait():
    world = World()
    world.launch(DP2_TP2, first_port=4000, token="one")
    world.launch(DP2_TP2, first_port=5000, token="two")
    world.probe(Contact.UP, *range(4000, 4004), *range(5000, 5004))
    said = told()
    assert said[0].startswith("prefill-a is serving: launch 1")
    assert said[1] == (
        "Launch 2 has all of its 4 ranks, but waits: dp0 tp0 at 10.0.0.1:4000, dp0 tp1 at 10.0.0.1:4001,"
        " dp1 tp0 at 10.0.0.1:4002, dp1 tp1 at 10.0.0.1:4003 of launch 1 still answer."
        " `manage.py request supersede prefill-a` puts launch 2 in charge."
    )


def test_two_launches_on_different_hosts_may_be_two_engines_of_one_name():
    world = World()
    world.launch(DP2_TP2, first_port=4000)
    for port, slot in enumerate(DP2_TP2.slots(), 5000):
        world.put(slot, DP2_TP2, port=port, host="10.0.0.2")
    world.probe(Contact.UP, *range(5000, 5004), host="10.0.0.2")
    world.probe(Contact.UP, *range(4000, 4004))
    assert told()[1].endswith(
        " They are on other hosts: when both are meant to run, two engines are called prefill-a, and need two names."
    )


def test_a_candidate_on_its_way_names_who_is_missing_in_it():
    world = World()
    world.launch(DP2_TP2, first_port=4000)
    world.launch(DP2_TP2, first_port=5000, skip=1)
    said = told()
    assert "Launch 2 is coming up: 3/4, missing dp1 tp1." in said
    assert "Nobody has registered as dp1 tp1 in launch 2." in said


def test_ranks_that_count_without_proof_are_named_with_the_reason():
    world = World()
    topology = Topology(1, 1, 2, 1)
    world.put(Slot(0, 0, 0, 0), topology, port=4000)
    world.put(Slot(0, 0, 1, 0), topology, port=4001, flags=("unprobed", "outside-networks"))
    world.probe(Contact.UNREACHED, 4000)
    said = told()
    assert said[0].startswith("prefill-a is serving")
    assert (
        "dp0 tp0 at 10.0.0.1:4000 counts, although the address cannot be reached from here: only a refused connection is"
        " proof." in said
    )
    assert "dp0 tp1 at 10.0.0.1:4001 is counted without a probe: it has an address outside PDCP_PROBE_NETWORKS." in said


def test_after_our_restart_it_says_who_was_not_probed_again():
    world = World()
    world.launch(Topology(1, 1, 1, 1), first_port=4000)
    Lease.objects.using(FACTS).update(token=2)
    assert told()[1] == (
        "dp0 tp0 at 10.0.0.1:4000 has not been probed since this bootstrap process took over; it was there before."
    )


def test_without_a_leader_nobody_answers_and_that_is_said():
    world = World()
    world.launch(DP2_TP2, first_port=4000)
    Lease.objects.using(FACTS).update(expires_at=time.time() - 40)
    assert told()[1] == "No bootstrap process leads, so nobody answers: test pid 1 was last heard from 40 s ago."
    Lease.objects.using(FACTS).update(expires_at=0)
    assert told()[1] == "No bootstrap process leads, so nobody answers: test pid 1 has stopped."


def test_a_retired_instance_is_explained_in_one_sentence():
    World()
    instances.retire("prefill-a", actor="anna")
    (said,) = told()
    assert said.startswith("prefill-a is retired since ") and said.endswith("whoever asks for it is told 404.")


def test_an_explanation_costs_a_constant_number_of_queries():
    for number in (1, 2):
        world = World(f"p{number}")
        world.launch(Topology(number, 1, 4, 1), first_port=4000, skip=number - 1)
        with CaptureQueriesContext(connections[READER]) as captured:
            told(name=f"p{number}")
        assert sum("SELECT" in query["sql"] for query in captured) == EXPLAIN_QUERIES
