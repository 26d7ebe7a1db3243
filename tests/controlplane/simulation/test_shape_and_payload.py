"""Which ranks there are, how they are named, and what they send."""

from __future__ import annotations

import ast
import importlib.util
import json
import pathlib

import pytest

from controlplane.domain.errors import Refused
from controlplane.domain.topology import SharedFacts, Slot
from controlplane.simulation.payload import encode, invented_weights, route_row, weights_row
from controlplane.simulation.shape import Selector, Shape, chosen

FACTS = SharedFacts(page_size=64, kv_cache_dtype="auto")


def real_payload_keys(path: str, function: str) -> list[str]:
    """The literal keys of `payload = {…}` and `payload[…] =` in a function of the installed SGLang."""
    package = importlib.util.find_spec("sglang")
    assert package and package.submodule_search_locations, "SGLang is part of the test environment"
    source = (pathlib.Path(package.submodule_search_locations[0]) / path).read_text()
    found = next(node for node in ast.walk(ast.parse(source)) if getattr(node, "name", "") == function)
    keys: list[str] = []
    for node in ast.walk(found):
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == "payload" and isinstance(node.value, ast.Dict):
            keys += [ast.literal_eval(key) for key in node.value.keys if key]
        if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == "payload":
            keys.append(ast.literal_eval(target.slice))
    return keys


def row_of(shape: Shape, slot: Slot) -> dict:
    return route_row(shape, slot, FACTS, ip="10.0.0.1", port=41000, http_port=30000)


def test_a_row_has_the_keys_of_sglang_in_its_order():
    keys = real_payload_keys("srt/disaggregation/common/conn.py", "register_to_bootstrap")
    assert list(row_of(Shape(), Slot(0, 0, 0, 0))) == keys


def test_weights_have_the_keys_of_sglang():
    path = "srt/model_executor/model_runner_components/remote_instance_weight_transporter.py"
    keys = real_payload_keys(path, "_register_to_engine_info_bootstrap")
    row = weights_row(Shape(), Slot(0, 0, 0, 0), session_id="10.0.0.1:41000", tensors=3)
    assert list(row) == keys
    assert row["transfer_engine_info"]["session_id"] == "10.0.0.1:41000"
    assert len(row["transfer_engine_info"]["weights_info_dict"]) == 3


def test_several_engines_are_told_apart_by_system_dp_and_attention_dp_by_its_own_rank():
    engines = row_of(Shape(system_dp=3, tp=2), Slot(dp=2, cp=0, tp=1, pp=0))
    assert (engines["system_dp_size"], engines["system_dp_rank"]) == (3, 2)
    assert (engines["attn_dp_size"], engines["attn_dp_rank"]) == (1, 0)
    attention = row_of(Shape(dp=3, tp=2), Slot(dp=2, cp=0, tp=1, pp=0))
    assert (attention["system_dp_size"], attention["system_dp_rank"]) == (1, 0)
    assert (attention["attn_dp_size"], attention["attn_dp_rank"]) == (3, 2)


def test_a_body_is_written_as_requests_writes_it():
    assert encode({"page_size": 64, "kv_layout": None}) == b'{"page_size": 64, "kv_layout": null}'
    assert encode(row_of(Shape(), Slot(0, 0, 0, 0))) == json.dumps(row_of(Shape(), Slot(0, 0, 0, 0))).encode()


@pytest.mark.parametrize("shape", [Shape(dp=2, cp=2, tp=4, pp=2), Shape(system_dp=3, cp=2, tp=2, pp=2)])
def test_every_rank_has_weights_under_a_key_of_its_own(shape):
    rows = [weights_row(shape, slot, session_id="s", tensors=0) for slot in shape.topology.slots()]
    assert sorted(row["rank"] for row in rows) == list(range(shape.topology.size))


def test_without_stages_and_engines_tp_rank_alone_is_enough():
    shape = Shape(dp=2, cp=2, tp=4)
    rows = [weights_row(shape, slot, session_id="s", tensors=0) for slot in shape.topology.slots()]
    assert sorted(row["tp_rank"] for row in rows) == list(range(16))
    assert not any("rank" in row for row in rows)


def test_invented_tensors_have_names_and_addresses_of_their_own():
    weights = invented_weights(1000)
    assert len(weights) == 1000
    assert len({pointer for pointer, _, _ in weights.values()}) == 1000


def test_a_selector_names_ranks_by_the_axes_it_mentions():
    slots = list(Shape(dp=2, tp=4).topology.slots())
    assert [slot for slot in slots if Selector.parse("dp1,tp3").matches(slot)] == [Slot(1, 0, 3, 0)]
    assert Selector.parse("dp1 tp3") == Selector.parse("tp3,dp1")
    assert sum(Selector.parse("dp1").matches(slot) for slot in slots) == 4
    assert all(Selector.parse("all").matches(slot) for slot in slots)


@pytest.mark.parametrize("text", ["", "dp", "rank3", "dp1,dp2", "dp-1", "dp1;tp2", "*"])
def test_what_names_no_ranks_is_refused(text):
    with pytest.raises(Refused):
        Selector.parse(text)


def test_only_and_skip_choose_the_ranks_that_start():
    topology = Shape(dp=2, tp=4).topology
    dp1 = Selector.parse("dp1")
    assert len(chosen(topology, only=[], skip=[])) == 8
    assert len(chosen(topology, only=[dp1], skip=[Selector.parse("tp3")])) == 3
    assert len(chosen(topology, only=[], skip=[Selector.parse("dp1,tp3"), Selector.parse("dp0,tp0")])) == 6
    with pytest.raises(Refused, match="leave none of the 8 ranks"):
        chosen(topology, only=[dp1], skip=[dp1])


def test_two_dp_axes_and_impossible_sizes_are_refused():
    with pytest.raises(Refused, match="cannot both be above 1"):
        Shape(dp=2, system_dp=2)
    with pytest.raises(Refused):
        Shape(tp=0)
