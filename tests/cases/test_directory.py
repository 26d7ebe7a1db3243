"""Public reports: what the directory keeps, counts and finds again."""

import socket
import time

from tests.cases.ranks import Ranks, complete, eventually, fleet, here
from tests.support.processes import manage
from tests.wire.client import ALL, Client, at, rank
from tests.wire.conftest import Server
from tests.wire.operators import rows

RANKS = "SELECT count(*) FROM controlplane_rank WHERE left_at IS NULL"
EVENTS = "SELECT count(*) FROM controlplane_event"


def test_DIR_01_ranks_under_an_index_that_cannot_be_fill_no_slot(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv()
    dp4 = {"attn_dp_size": 4, "load_balance_method": "follow_bootstrap_room"}
    assert client.put(**dp4, rank_port=41000).status == 200
    for k in (1, 2, 3):
        refused = client.put(**dp4, attn_dp_rank=k, attn_tp_rank=k, rank_port=41000 + k)
        assert refused.status == 400
        assert f"tp rank {k} does not exist in a topology of 1" in refused.text
    waiting = client.topology()
    assert (waiting.status, waiting.text) == (503, "Prefill server not fully registered yet (1 workers registered).")
    assert client.slot(dp=2).status in (404, 503)
    assert rows(one.backend, "SELECT dp, tp, port FROM controlplane_rank") == [(0, 0, 41000)]
    (shown,) = fleet(one.backend)
    assert [len(shown["missing"]), shown["registered"], shown["expected"]] == [3, 1, 4]
    assert {slot.split(".")[0] for slot in shown["missing"]} == {"dp1", "dp2", "dp3"}
    for k in (1, 2, 3):
        assert client.put(**dp4, attn_dp_rank=k, rank_port=41000 + k).status == 200
    assert client.slot(dp=2).json()["rank_port"] == 41002


def test_DIR_01_an_operator_sees_that_registrations_were_refused_and_why(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    assert one.kv().put(attn_dp_size=4).status == 200
    for k in (1, 2, 3):
        one.kv().put(attn_dp_size=4, attn_dp_rank=k, attn_tp_rank=k, rank_port=41000 + k)
    told = manage("events", "--json", env=one.backend.env).stdout + one.process.log()
    assert "tp rank 1 does not exist in a topology of 1" in told


def test_DIR_02_one_listener_in_two_spellings_is_one_instance(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    assert Client(one.process.kv_port, host="127.0.0.1").put().status == 200
    answers = set()
    for address in ("127.0.0.1", "localhost"):
        client = Client(one.process.kv_port, host=address)
        for host in ("localhost:8998", "127.0.0.1:8998", "10.0.0.5:8998"):
            answers.add((client("GET", "/route", ALL, headers={"Host": host}).body, "topology"))
            answers.add((client("GET", "/route", at(), headers={"Host": host}).body, "rank"))
    assert len(answers) == 2
    assert rows(one.backend, "SELECT count(*) FROM controlplane_instance") == [(1,)]


def test_DIR_03_everything_is_there_after_a_kill_and_the_dead_do_not_look_alive(watch, ranks: Ranks):
    one: Server = watch()
    client = one.kv()
    ports = [ranks.open(), ranks.open()]
    for tp, port in enumerate(ports):
        assert client.put(**here(attn_tp_size=2, attn_tp_rank=tp, rank_port=port)).status == 200
    complete(client)
    assert client.bind(501, 0).status == 200
    before = [client.topology().body, client.slot(tp=0).body, client.slot(tp=1).body, client.find(501).body]
    began = time.monotonic()
    one.process.restart()
    after = [client.topology().body, client.slot(tp=0).body, client.slot(tp=1).body, client.find(501).body]
    assert time.monotonic() - began < 20
    assert after == before
    assert client.health() == 200
    eventually(lambda: all(rank["verified"] for rank in fleet(one.backend, "default")["ranks"]), within=30)
    ranks.die(ports[1])
    eventually(lambda: client.health() == 503)
    assert [client.topology().status, client.slot(tp=0).status, client.slot(tp=1).status] == [503] * 3
    (shown,) = fleet(one.backend)
    assert [slot.split(".")[2] for slot in shown["missing"]] == ["tp1"]


def test_DIR_03_restored_rows_are_unverified_until_somebody_answers(watch, ranks: Ranks):
    one: Server = watch()
    client = one.kv()
    port = ranks.open()
    assert client.put(**here(rank_port=port)).status == 200
    complete(client)
    assert [rank["verified"] for rank in fleet(one.backend, "default")["ranks"]] == [True]
    one.process.kill9()
    ranks.die(port)
    # Somebody takes connections there, and for half a minute nobody can tell whether it is the rank.
    with socket.create_server(("127.0.0.1", port)):
        one.process.env["PDCP_PROBE_TIMEOUT_SECONDS"] = "30"
        one.process.start()
        time.sleep(0.5)
        assert client.topology().status == 200
        assert [rank["verified"] for rank in fleet(one.backend, "default")["ranks"]] == [False]


def test_DIR_03_a_rank_that_died_while_we_were_away_does_not_come_back(watch, ranks: Ranks):
    one: Server = watch()
    client = one.kv()
    port = ranks.open()
    assert client.put(**here(rank_port=port)).status == 200
    complete(client)
    one.process.kill9()
    ranks.die(port)
    one.process.start()
    eventually(lambda: client.health() == 503)
    assert client.slot().status == 503


def test_DIR_04_the_same_registration_again_is_one_row_and_no_news(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv()
    first = rank(attn_tp_size=2, rank_ip="10.0.1.10", rank_port=41000)
    assert client("PUT", "/route", js=first).status == 200
    events, seen = rows(one.backend, EVENTS), rows(one.backend, "SELECT seen_at FROM controlplane_rank")
    time.sleep(0.05)
    for _ in range(3):
        answer = client("PUT", "/route", js=first)
        assert (answer.status, answer.text) == (200, "OK")
    assert rows(one.backend, RANKS) == [(1,)]
    assert client.topology().text == "Prefill server not fully registered yet (1 workers registered)."
    assert rows(one.backend, EVENTS) == events
    assert rows(one.backend, "SELECT seen_at FROM controlplane_rank") > seen
    assert client.put(attn_tp_size=2, attn_tp_rank=1, rank_port=41001).status == 200
    assert client.topology().status == 200
