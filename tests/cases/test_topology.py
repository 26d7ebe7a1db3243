"""Public reports: which slot a rank sits in, and what all of its launch must say alike."""

from tests.cases.ranks import Ranks, complete, fleet, here
from tests.wire.conftest import Server
from tests.wire.operators import rows


def test_TOP_01_plain_data_parallel_is_keyed_by_the_system_dp_rank(server: Server, tenant):
    client = server.kv(tenant)
    for k in range(2):
        assert client.put(system_dp_size=2, system_dp_rank=k, rank_port=41000 + k).status == 200
    assert client.topology().json()["dp_size"] == 2
    assert [client.slot(dp=k).json()["rank_port"] for k in range(2)] == [41000, 41001]
    assert client.bind(901, 1).status == 200
    assert client.find(901).json() == {"901": 1}


def test_TOP_01_attention_dp_ranks_count_when_there_is_one_system(server: Server, tenant):
    client = server.kv(tenant)
    for k in range(2):
        assert client.put(attn_dp_size=2, attn_dp_rank=k, rank_port=41000 + k).status == 200
    assert client.topology().json()["dp_size"] == 2
    assert client.slot(dp=1).json()["rank_port"] == 41001


def test_TOP_03_a_recorded_rank_wins_over_arithmetic_and_an_unknown_room_is_absent(server: Server, tenant):
    client = server.kv(tenant)
    for k in range(4):
        assert client.put(attn_dp_size=4, attn_dp_rank=k, rank_port=41000 + k).status == 200
    assert client.bind(1001, 3).status == 200
    assert client.find(1001, 1002).json() == {"1001": 3}


def test_TOP_05_the_page_size_is_told_as_it_was_registered(server: Server, tenant):
    client = server.kv(tenant)
    assert client.put(page_size=32).status == 200
    assert client.topology().json()["page_size"] == 32


def test_TOP_05_ranks_of_one_launch_that_disagree_are_refused_with_both_values_and_slots(
    watching, tenant, ranks: Ranks
):
    client = watching.kv(tenant)
    assert client.put(**here(attn_tp_size=2, page_size=32, rank_port=ranks.open())).status == 200
    for facts, values in (
        ({"page_size": 64}, ("page_size", "32", "64")),
        ({"page_size": 32, "kv_cache_dtype": "fp8_e4m3"}, ("kv_cache_dtype", "auto", "fp8_e4m3")),
        ({"page_size": 32, "load_balance_method": "round_robin"}, ("load_balance_method", "round_robin")),
        ({"page_size": 32, "decode_allocation_policy": "prefill_complete"}, ("decode_allocation_policy", "early")),
        ({"page_size": 32, "enable_kv_cache_sharding": True}, ("enable_kv_cache_sharding",)),
    ):
        refused = client.put(**here(attn_tp_size=2, attn_tp_rank=1, rank_port=ranks.open(), **facts))
        assert refused.status == 409, refused
        assert all(text in refused.text for text in (*values, "dp0 cp0 tp0 pp0", "dp0 cp0 tp1 pp0")), refused
    # A port of the API differs from host to host and is no shared fact; a null contradicts nothing.
    last = here(attn_tp_size=2, attn_tp_rank=1, rank_port=ranks.open(), page_size=32, prefill_http_port=31000)
    assert client.put(**last, kv_cache_dtype=None).status == 200
    complete(client)
    assert client.topology().json()["page_size"] == 32


def test_TOP_08_every_pipeline_stage_is_a_slot_of_its_own(server: Server, tenant):
    client = server.kv(tenant)
    stages = [(tp, pp) for pp in range(2) for tp in range(2)]
    for n, (tp, pp) in enumerate(stages):
        assert client.topology().status in (404, 503)
        where = {"attn_tp_size": 2, "attn_tp_rank": tp, "pp_size": 2, "pp_rank": pp}
        assert client.put(**where, rank_port=41000 + n).status == 200
    for n, (tp, pp) in enumerate(stages):
        assert client.slot(tp=tp, pp=pp).json()["rank_port"] == 41000 + n


def test_TOP_08_two_slots_at_one_address_do_not_make_an_instance_ready(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv()
    for pp in range(2):
        for tp in range(2):
            where = {"attn_tp_size": 2, "attn_tp_rank": tp, "pp_size": 2, "pp_rank": pp}
            # Stage 1 repeats the ports of stage 0 by mistake.
            assert client.put(**where, rank_port=41000 + tp).status in (200, 409)
    assert client.topology().status == 503
    assert client.slot(pp=1).status in (404, 503)
    (shown,) = fleet(one.backend)
    assert len(shown["missing"]) == 2
    left = rows(one.backend, "SELECT left_reason FROM controlplane_rank WHERE left_at IS NOT NULL")
    assert len(left) == 2 and all("registered as" in reason for (reason,) in left), "the conflict is told"
