"""Sizes, slots and shared facts."""

import pytest

from controlplane.domain.errors import Refused
from controlplane.domain.topology import MAX_SIZE, SharedFacts, Slot, Topology

FACTS = SharedFacts(64, "auto")


def test_the_slots_of_a_topology_are_its_product_each_once():
    topology = Topology(2, 3, 4, 5)
    slots = list(topology.slots())
    assert len(slots) == len(set(slots)) == topology.size == 120
    assert slots == sorted(slots)


def test_missing_names_the_first_free_slots_in_order():
    topology = Topology(2, 1, 2, 1)
    seated = {Slot(0, 0, 0, 0): 1, Slot(1, 0, 1, 0): 1}
    assert topology.missing(seated) == [Slot(0, 0, 1, 0), Slot(1, 0, 0, 0)]
    assert topology.missing(seated, limit=1) == [Slot(0, 0, 1, 0)]
    assert topology.missing(dict.fromkeys(topology.slots(), 1)) == []


@pytest.mark.parametrize(
    ("topology", "slot", "sentence"),
    [
        (Topology(1, 1, 2, 1), Slot(0, 0, 2, 0), "tp rank 2 does not exist in a topology of 2"),
        (Topology(1, 1, 2, 1), Slot(0, 0, -1, 0), "tp rank -1 does not exist in a topology of 2"),
        (Topology(0, 1, 2, 1), Slot(0, 0, 0, 0), "dp size must be between 1 and 4096, not 0"),
        (Topology(1, MAX_SIZE + 1, 1, 1), Slot(0, 0, 0, 0), "cp size must be between 1 and 4096, not 4097"),
        (Topology(1, 1, 1, 3), Slot(0, 0, 0, 3), "pp rank 3 does not exist in a topology of 3"),
        (Topology(4096, 1, 17, 1), Slot(0, 0, 0, 0), "a topology of 69632 slots is larger than 65536"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(topology: Topology, slot: Slot, sentence: str):
    with pytest.raises(Refused, match=sentence):
        topology.check(slot)


@pytest.mark.parametrize(
    ("topology", "slot"),
    [
        (Topology(1, 1, 1, 1), Slot(0, 0, 0, 0)),
        (Topology(4096, 1, 16, 1), Slot(4095, 0, 15, 0)),
        (Topology(2, 3, 4, 5), Slot(1, 2, 3, 4)),
    ],
)
def test_what_can_be_is_not(topology: Topology, slot: Slot):
    topology.check(slot)


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ({}, {}, None),
        ({}, {"page_size": 16}, ("page_size", 64, 16)),
        ({}, {"kv_cache_dtype": "fp8_e4m3"}, ("kv_cache_dtype", "auto", "fp8_e4m3")),
        ({"kv_layout": None}, {"kv_layout": "hnd"}, None),
        ({"kv_layout": "nhd"}, {"kv_layout": "hnd"}, ("kv_layout", "nhd", "hnd")),
        ({"page_size": None}, {}, None),
        # Decodes compare the DSpark layout null included.
        ({"dsv41_spec_layout": "{}"}, {}, ("dsv41_spec_layout", "{}", None)),
        ({}, {"load_balance_method": "round_robin"}, ("load_balance_method", "follow_bootstrap_room", "round_robin")),
        ({}, {"enable_dsa_cache_layer_split": True}, ("enable_dsa_cache_layer_split", False, True)),
        ({}, {"enable_kv_cache_sharding": True}, ("enable_kv_cache_sharding", False, True)),
        ({}, {"decode_allocation_policy": "late"}, ("decode_allocation_policy", "early", "late")),
    ],
)
def test_facts_disagree_where_both_speak_and_differ(mine, theirs, expected):
    said = SharedFacts(**{"page_size": 64, "kv_cache_dtype": "auto", **mine})
    other = SharedFacts(**{"page_size": 64, "kv_cache_dtype": "auto", **theirs})
    assert said.disagreement(other) == expected
    assert (other.disagreement(said) is None) == (expected is None)


def test_a_null_is_filled_from_whoever_knows_and_nothing_else_is():
    known = SharedFacts(16, "fp8", kv_layout="hnd")
    assert SharedFacts(None, "auto").filled_from(known) == SharedFacts(16, "auto", kv_layout="hnd")
    assert FACTS.filled_from(FACTS) is FACTS
