"""Public reports: who may write, and what a forged write can do."""

import time

import pytest

from tests.cases.ranks import Ranks, complete, eventually, here
from tests.wire.client import engine_info, rank
from tests.wire.conftest import Server
from tests.wire.operators import rows
from tests.wire.tokens import bearer, make, with_admin


def test_SEC_01_only_the_networks_that_are_allowed_write_and_all_may_read(serve):
    one: Server = serve("a", PDCP_REGISTER_NETWORKS="10.0.0.0/8,fd00::/8", PDCP_PROBE_NETWORKS="none")
    kv, engine = one.kv("a"), one.engine("a")
    beat = kv("POST", "/pd/v1/heartbeats", js={"worker": "w1"})
    for answer in (kv.put(), kv.bind(42, 0), engine.publish(tp_rank=0), beat):
        assert answer.status == 403, answer
        assert "127.0.0.1" in answer.text
    assert (kv.health(), kv.topology().status, kv.find(42).json(), engine.weights(0).status) == (200, 503, {}, 404)
    for table in ("rank", "launch", "engineinfo", "workerlease"):
        assert rows(one.backend, f"SELECT count(*) FROM controlplane_{table}") == [(0,)]


def test_SEC_01_in_token_mode_only_the_right_token_writes_and_stock_decodes_still_read(serve):
    one: Server = serve("a", PDCP_REGISTER_BY="token", PDCP_PROBE_NETWORKS="none")
    with_admin(one.backend)
    # In this order: whoever knows the second knows the first.
    elsewhere = make(one.backend, "b", "register", instance="b")
    right = make(one.backend, "worker", "register", instance="a")
    kv, engine = one.kv("a"), one.engine("a")

    def forged(headers: dict[str, str]) -> list[int]:
        """Somebody else's rank, room and session, and a heartbeat."""
        beat = kv("POST", "/pd/v1/heartbeats", js={"worker": "w1"}, headers=headers)
        put = kv("PUT", "/route", js=rank(rank_ip="10.0.66.6", rank_port=4444), headers=headers)
        bind = kv("POST", "/register_dp_rank", js={"bootstrap_room": 42, "dp_rank": 0}, headers=headers)
        body = engine_info(tp_rank=0, session="10.0.66.6:1")
        publish = engine("PUT", "/register_transfer_engine_info", js=body, headers=headers)
        return [answer.status for answer in (put, bind, publish, beat)]

    eventually(lambda: kv("PUT", "/route", js=rank(), headers=bearer(right)).status == 200)
    complete(kv)
    before = kv.slot().json()
    for headers, status in (
        ({}, 401),
        (bearer("pdcp_" + "0" * 64), 401),
        (bearer(right[:-1]), 401),
        ({"Authorization": right}, 401),
        (bearer(elsewhere), 403),
    ):
        assert set(forged(headers)) == {status}, headers
    assert (kv.health(), kv.topology().status, kv.slot().json(), kv.find(42).json()) == (200, 200, before, {})
    for table, stored in (("rank", 1), ("launch", 1), ("engineinfo", 0), ("workerlease", 0)):
        assert rows(one.backend, f"SELECT count(*) FROM controlplane_{table}") == [(stored,)]
    assert kv("POST", "/register_dp_rank", js={"bootstrap_room": 42, "dp_rank": 9}, headers=bearer(right)).status == 400
    assert right not in one.process.log() and elsewhere not in one.process.log()
    told = rows(one.backend, "SELECT data FROM controlplane_event")
    assert not any(right in data or elsewhere in data for (data,) in told)


def test_SEC_01_a_forged_registration_does_not_displace_a_living_owner_and_is_told(watch, ranks: Ranks):
    # So short that it is over for an address that nobody reaches, before we look.
    one: Server = watch(PDCP_PROBE_TIMEOUT_SECONDS=0.5)
    client = one.kv()
    own = [ranks.open(), ranks.open()]
    for tp, port in enumerate(own):
        assert client.put(**here(attn_tp_size=2, attn_tp_rank=tp, rank_port=port)).status == 200
    complete(client)
    forged = ranks.open()
    for facts in (
        {"attn_tp_size": 2, "rank_port": forged},
        {"attn_tp_size": 2, "rank_port": 4444, "rank_ip": "10.0.66.6"},
        {"attn_tp_size": 1, "rank_port": forged},
    ):
        assert client.put(**here(**facts)).status in (200, 409)
        time.sleep(0.7)
        assert [client.slot(tp=tp).json()["rank_port"] for tp in (0, 1)] == own
        assert client.topology().json()["attn_tp_size"] == 2
        assert client.health() == 200
    told = rows(one.backend, "SELECT data FROM controlplane_event WHERE kind = 'rank.registered'")
    assert any(str(forged) in data for (data,) in told), "a changed address is in the ledger"


def test_SEC_01_a_dp_rank_outside_the_instance_is_refused(watch, ranks: Ranks):
    client = watch().kv()
    assert client.put(**here(rank_port=ranks.open())).status == 200
    complete(client)
    assert client.bind(42, 0).status == 200
    refused = client.bind(42, 9)
    assert refused.status == 400 and "dp_rank 9" in refused.text
    assert client.find(42).json() == {"42": 0}


@pytest.mark.parametrize("key", ["tp_rank", "rank"])
def test_SEC_01_a_forged_session_does_not_displace_a_living_one(watch, ranks: Ranks, key):
    one: Server = watch()
    engine = one.engine("seed")
    living, forged = f"127.0.0.1:{ranks.open()}", f"127.0.0.1:{ranks.open()}"
    assert engine.publish(session=living, **{key: 0}).status == 200
    time.sleep(1)
    assert engine.publish(session=forged, **{key: 0}).status in (200, 409)
    conflicts = "SELECT count(*) FROM controlplane_event WHERE kind = 'engine.conflicted'"
    eventually(lambda: rows(one.backend, conflicts) != [(0,)])
    time.sleep(0.7)
    assert engine.weights(0).json()["remote_instance_transfer_engine_info"][0] == living
    assert rows(one.backend, conflicts) == [(1,)]
