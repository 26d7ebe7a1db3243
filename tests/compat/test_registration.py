"""Real prefill ranks register, and real decode ranks find them."""

import pytest

# fmt: off
SHAPES = {
    "1x1x1x1":     {},
    "dp2·tp4":     {"dp": 2, "tp": 4},
    "cp2·tp2·pp2": {"cp": 2, "tp": 2, "pp": 2},
    "system dp 3": {"system_dp": 3},
}
# fmt: on


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_real_ranks_register_and_real_decodes_reach_their_sockets(target, sglang, shape):
    target.start()
    facts = sglang.open("registration", port=target.kv_port, shape=shape)

    assert facts["open_while_incomplete"] is False
    assert facts["ready_when_complete"], "complete, and still not open after 10 s"
    assert facts["topology"] == {
        "attn_tp_size": shape.get("tp", 1),
        "attn_cp_size": shape.get("cp", 1),
        "dp_size": shape.get("dp", shape.get("system_dp", 1)),
        "pp_size": shape.get("pp", 1),
        "page_size": 64,
        "follow_bootstrap_room": True,
    }
    assert facts["targets"] == {
        "target_tp_ranks": [0],
        "target_cp_ranks": [0],
        "target_pp_ranks": list(range(shape.get("pp", 1))),
    }
    assert facts["wrong_look_ups"] == []
    assert facts["not_set_up"] == []
    assert facts["wrong_order"] == []
    assert facts["frames"] == facts["frames_expected"]
    assert sum(facts["frames"].values()) > 0
    assert facts["strange_frames"] == []


def test_a_rank_that_registers_twice_does_not_open_the_directory(target, sglang):
    target.start()
    facts = sglang.open("duplicate", port=target.kv_port)
    if target.is_ours:
        assert facts["opened_by_a_duplicate"] is False
    else:
        # The known bug of the original: it counts calls, opens, and the request that believed it fails.
        assert facts["opened_by_a_duplicate"] and facts["request_failed"]
    assert facts["ready_when_complete"]


def test_a_server_that_comes_up_within_the_retries_loses_no_rank(target, sglang):
    assert sglang.open("late_server", port=target.kv_port) == {"registering": True}
    target.start()
    assert sglang.go_on()["ready_when_complete"]
