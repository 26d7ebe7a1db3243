"""One answer has all that a decode needs of a prefill: mapping, addresses, launch; or a sentence that says why not."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import instances
from controlplane.databases import FACTS, READER
from controlplane.domain.contact import Contact
from controlplane.domain.decodes import read
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.models import Instance, Lease
from controlplane.queries.resolve import Resolved, resolve
from tests.controlplane.queries.world import World

DP2_TP4 = Topology(2, 1, 4, 1)
RESOLVE_QUERIES = 14


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def ask(given: dict | None = None, name: str = "prefill-a", **how) -> Resolved:
    said = {"tp_size": 4, "page_size": 64, "kv_cache_dtype": "auto", "is_mla": False}
    return resolve(name, read({**said, **(given or {})}), now=time.time(), **how)


def serving(topology: Topology = DP2_TP4, **how) -> World:
    world = World()
    world.launch(topology, first_port=4000, **how)
    return world


def refused(given: dict | None = None, name: str = "prefill-a", **how) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        ask(given, name, **how)
    return caught.value.code, caught.value.sentence


def test_one_rank_gets_its_mapping_and_the_addresses_of_every_dp_group():
    serving(token="T")
    found = ask({"tp_size": 2}, engine_rank=1)
    (rank,) = found.ranks
    assert rank.mapping.target_tp_ranks == (2, 3)
    assert (rank.mapping.required_dst_info_num, rank.mapping.required_prefill_response_num) == (1, 2)
    assert found.addresses == {
        Slot(0, 0, 2, 0): "10.0.0.1:4002",
        Slot(0, 0, 3, 0): "10.0.0.1:4003",
        Slot(1, 0, 2, 0): "10.0.0.1:4006",
        Slot(1, 0, 3, 0): "10.0.0.1:4007",
    }
    assert (found.launch, found.token, found.groups, found.intent, found.old) == (1, "T", (0, 1), "enabled", False)
    assert [finding.field for finding in found.open] == ["tp_size"]


def test_all_ranks_at_once_and_one_dp_group_alone():
    serving()
    found = ask(dp=1)
    assert [rank.engine_rank for rank in found.ranks] == [0, 1, 2, 3]
    assert list(found.addresses.values()) == [f"10.0.0.1:{port}" for port in range(4004, 4008)]
    assert [list(rank.slots(1)) for rank in found.ranks] == [[Slot(1, 0, tp, 0)] for tp in range(4)]
    assert found.dp_of(7) == 1


def test_of_a_run_the_first_rank_sends_for_mla_and_the_others_are_told():
    serving()
    mla = ask({"tp_size": 1, "is_mla": True}, engine_rank=0, dp=0)
    (rank,) = mla.ranks
    assert [rank.is_dummy(slot, mla=mla.is_mla) for slot in rank.slots(0)] == [False, True, True, True]
    other = ask({"tp_size": 1}, engine_rank=0, dp=0)
    assert not any(other.ranks[0].is_dummy(slot, mla=other.is_mla) for slot in other.ranks[0].slots(0))


def test_higher_pipeline_stages_are_connected_first_as_sglang_does():
    serving(Topology(1, 1, 1, 3))
    found = ask({"tp_size": 1}, engine_rank=0)
    assert [slot.pp for slot in found.ranks[0].slots(0)] == [2, 1, 0]


def test_the_etag_is_the_launch_s_and_changes_with_any_address():
    world = serving(token="one")
    first = ask()
    assert first.etag == ask().etag and first.etag.startswith("1-")
    assert ask({"tp_size": 2}).etag != first.etag
    # One rank comes back in the same launch at another address.
    world.refuse(4001)
    world.put(Slot(0, 0, 1, 0), DP2_TP4, port=4900, token="one")
    world.probe(Contact.UP, 4900, 4000, *range(4002, 4008))
    world.end_flush()
    again = ask()
    assert again.launch == 1 and again.etag != first.etag
    assert again.addresses[Slot(0, 0, 1, 0)] == "10.0.0.1:4900"


def test_an_answer_never_mixes_two_launches():
    world = serving(token="one")
    world.launch(DP2_TP4, first_port=5000, token="two", skip=1)
    found = ask()
    assert found.launch == 1 and all(":40" in where for where in found.addresses.values())


def test_who_does_not_serve_says_why_and_who_is_missing():
    World("empty")
    assert refused(name="empty") == ("unavailable", "empty is not serving: no rank is registered")
    world = serving()
    world.refuse(4003)
    assert refused() == ("unavailable", "prefill-a is not serving: 7/8, missing dp0 tp3")
    world.put(Slot(0, 0, 3, 0), DP2_TP4, port=4103)
    world.probe(Contact.UP, 4103, *range(4000, 4003), *range(4004, 4008))
    code, sentence = refused()
    assert code == "unavailable" and "until every decode has dropped what it cached" in sentence


def test_unknown_and_retired_are_not_found_and_a_decode_has_nothing_to_give():
    assert refused(name="ghost") == ("not_found", "no instance is named ghost")
    serving()
    instances.retire("prefill-a", actor="anna")
    assert refused() == ("not_found", "prefill-a is retired")
    instances.add("d", role="decode", actor="anna")
    assert refused(name="d") == ("conflict", "d is a decode: decodes ask here, they do not register")


@pytest.mark.parametrize("intent", ["cordoned", "draining"])
def test_draining_and_cordoned_still_resolve_for_the_rooms_in_flight(intent):
    serving()
    Instance.objects.using(FACTS).update(intent=intent)
    found = ask()
    assert found.intent == intent and len(found.addresses) == 8


def test_a_pair_that_cannot_work_is_refused_with_what_sglang_would_do():
    serving()
    code, sentence = refused({"page_size": 16})
    assert code == "conflict"
    assert sentence.startswith("page_size differs: prefill has 64, decode has 16; the decode raises in its scheduler")
    assert refused({"tp_size": 3})[0] == "conflict"
    assert refused({"cp_size": 2})[0] == "conflict"
    assert refused({"pp_size": 2})[0] == "conflict"


def test_what_was_not_said_is_asked_for_only_where_the_answer_depends_on_it():
    serving(Topology(1, 2, 4, 1))
    with pytest.raises(Refused, match="tp_size is needed"):
        resolve("prefill-a", read({}), now=time.time())
    equal = resolve("prefill-a", read({"tp_size": 4, "is_hybrid_mla": False, "all_cp_ranks": False}), now=time.time())
    assert {finding.field for finding in equal.open} == {"page_size", "kv_cache_dtype"}
    for given, needed in (
        ({"tp_size": 2, "is_hybrid_mla": False, "all_cp_ranks": False}, "is_mla"),
        ({"tp_size": 4, "is_mla": False, "all_cp_ranks": False}, "is_hybrid_mla"),
        ({"tp_size": 4, "is_mla": True}, "all_cp_ranks"),
    ):
        with pytest.raises(Refused, match=f"{needed} is needed") as caught:
            resolve("prefill-a", read(given), now=time.time())
        assert caught.value.code == "malformed"


def test_a_rank_that_cannot_be_is_refused():
    serving()
    assert refused(engine_rank=-1)[0] == "malformed"
    assert refused(engine_rank=0, pp_rank=1)[0] == "malformed"
    assert refused(dp=2) == ("malformed", "dp 2 does not exist: launch 1 has 2 DP groups")


def test_a_decode_that_calls_itself_huge_gets_no_huge_answer(monkeypatch):
    serving()
    monkeypatch.setattr("controlplane.domain.resolving.MOST_TARGETS", 7)
    assert (
        refused()[1] == "4 ranks of the decode and 2 DP groups are more than one answer holds: name engine_rank or dp"
    )
    assert refused({"tp_size": 8})[1] == "a decode of 8 ranks is asked for one by one: name engine_rank"
    assert len(ask(dp=0).ranks) == 4 and len(ask(engine_rank=0).groups) == 2


def test_without_a_leader_the_last_word_stands_and_is_called_old():
    serving()
    Lease.objects.using(FACTS).update(expires_at=time.time() - 600)
    assert ask().old


def test_an_answer_costs_a_constant_number_of_queries():
    for topology in (Topology(1, 1, 1, 1), Topology(4, 1, 8, 1)):
        world = World(f"p{topology.size}")
        world.launch(topology, first_port=4000)
        with CaptureQueriesContext(connections[READER]) as captured:
            resolve(world.row.name, read({"tp_size": topology.tp}), now=time.time())
        assert sum("SELECT" in query["sql"] for query in captured) == RESOLVE_QUERIES
