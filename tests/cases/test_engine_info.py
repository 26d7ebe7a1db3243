"""Public reports: weights dictionaries of many ranks, large, odd and all at once."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.cases.ranks import Ranks, eventually, fleet
from tests.support.machine import slowness
from tests.wire.client import engine_info
from tests.wire.conftest import Server
from tests.wire.operators import rows
from tests.wire.raw import Wire, request
from tests.wire.replay import weights

GET = "/get_transfer_engine_info"
PROXY = "/remote_instance_transfer_engine_info"
ALIAS = "/get_remote_instance_transfer_engine_info"
PUT = "/register_transfer_engine_info"


def session_of(answer: Any) -> str:
    assert answer.status == 200, answer
    return str(answer.json()["remote_instance_transfer_engine_info"][0])


def test_ENG_01_rank_wins_over_tp_rank_zero_included_and_stages_coexist(server: Server, tenant):
    engine = server.engine(tenant)
    stage0 = engine.publish(session="10.0.1.10:17001", weights={"layer0.w": [4096, 64, 2]}, rank=0, tp_rank=1)
    stage1 = engine.publish(session="10.0.1.10:17002", weights={"layer40.w": [8192, 64, 2]}, rank=1, tp_rank=0)
    assert (stage0.status, stage1.status) == (200, 200)
    answers = [engine.weights(n).json()["remote_instance_transfer_engine_info"] for n in (0, 1)]
    assert answers == [
        ["10.0.1.10:17001", {"layer0.w": [4096, 64, 2]}],
        ["10.0.1.10:17002", {"layer40.w": [8192, 64, 2]}],
    ]


@pytest.mark.parametrize("pause", [0.0, 1.0], ids=["at once", "later"])
def test_ENG_01_a_second_living_session_on_an_old_key_is_a_conflict(watching: Server, tenant, ranks: Ranks, pause):
    """Two pipeline stages that both call themselves tp_rank 0. They start together, so nobody has been probed yet."""
    engine = watching.engine(tenant)
    first, second = (f"127.0.0.1:{ranks.open()}" for _ in range(2))
    assert engine.publish(session=first, weights={"layer0.w": [4096, 64, 2]}, tp_rank=0).status == 200
    time.sleep(pause)
    assert engine.publish(session=second, weights={"layer40.w": [8192, 64, 2]}, tp_rank=0).status == 200
    eventually(lambda: fleet(watching.backend, tenant)["engine_info"]["conflicts"] == 1, within=30)
    assert session_of(engine.weights(0)) == first


def test_ENG_01_a_restarted_seed_takes_the_place_of_its_dead_session(watching: Server, tenant, ranks: Ranks):
    engine = watching.engine(tenant)
    old, new = ranks.open(), ranks.open()
    assert engine.publish(session=f"127.0.0.1:{old}", tp_rank=0).status == 200
    greeted = "SELECT greeted FROM controlplane_engineinfo WHERE session = ?"
    eventually(lambda: rows(watching.backend, greeted, f"127.0.0.1:{old}") == [(1,)])
    ranks.die(old)
    assert engine.publish(session=f"127.0.0.1:{new}", tp_rank=0).status == 200
    eventually(lambda: session_of(engine.weights(0)) == f"127.0.0.1:{new}")
    assert fleet(watching.backend, tenant)["engine_info"] == {"sessions": 1, "conflicts": 0}


def test_ENG_03_every_rank_of_every_node_is_found_and_the_late_one_as_soon_as_it_is_there(server: Server, tenant):
    engine = server.engine(tenant)
    for n in (*range(11), *range(12, 16)):
        host = "10.0.1.10" if n < 8 else "10.0.1.11"
        assert engine.publish(session=f"{host}:{17000 + n}", weights={f"w{n}": [n, 1, 2]}, rank=n).status == 200
    for path in (GET, PROXY, ALIAS):
        last = engine.weights(15, path)
        assert last.status == 200 and last.content_type == "application/json"
        assert last.json() == {
            "rank": 15,
            "remote_instance_transfer_engine_info": ["10.0.1.11:17015", {"w15": [15, 1, 2]}],
        }
        assert engine.weights(11, path).json() == {"detail": "No transfer engine info for rank 11"}
        statuses = [engine.weights(n, path).status for n in (11, 16, -1, "x", "", 1.5, 10**30)]
        assert statuses == [404, 404, 400, 422, 422, 422, 404]
        assert engine("GET", path).status == 422
    assert fleet(server.backend, tenant)["engine_info"]["sessions"] == 15
    assert engine.publish(session="10.0.1.11:17011", rank=11).status == 200
    assert [session_of(engine.weights(11, path)) for path in (GET, PROXY, ALIAS)] == ["10.0.1.11:17011"] * 3
    assert fleet(server.backend, tenant)["engine_info"]["sessions"] == 16


def test_ENG_04_a_dictionary_comes_back_unchanged_by_every_path_and_after_a_restart(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    sent = {f"model.layers.{n}.weight": [2**47 - n, 64 + n, (1, 2, 4)[n % 3]] for n in range(1190)}
    sent |= {
        "a/b/c": [2**47 - 1, 0, 1],
        "zero.size": [0, 0, 2],
        "größe[0].{x}": [2**63 + 1, 1, 4],
        "日本語.weight": [2**64 - 1, 1, 1],
        'quo"te\\back\tslash\n': [1, 1, 1],
        "": [2**53 + 1, 3, 2],
        "emoji.🦊": [7, 7, 7],
        "é": [1, 2, 4],
        "e\u0301": [1, 2, 4],
        " spaced ": [1, 2, 4],
    }
    assert len(sent) == 1200
    engine = one.engine()
    assert engine.publish(rank=3, weights=sent).status == 200

    def check() -> None:
        bodies = set()
        for path in (GET, PROXY, ALIAS):
            for client in (engine, one.engine("default")):
                answer = client.weights(3, path)
                bodies.add(answer.body)
                pairs = json.loads(answer.body, object_pairs_hook=list)
                assert dict(pairs)["remote_instance_transfer_engine_info"][1] == list(sent.items()), "names and order"
        assert len(bodies) == 1

    check()
    one.process.restart()
    check()


def test_ENG_04_a_dictionary_stays_when_a_new_session_publishes_the_same_one(serve):
    """Bodies are stored once, however many sessions name them: the old one's end must not take it from the new one."""
    one: Server = serve("seed", PDCP_PROBE_NETWORKS="none")
    engine = one.engine("seed")
    for port in (17001, 17002, 17003):
        assert engine.publish(session=f"10.0.1.10:{port}", rank=0).status == 200
        assert session_of(engine.weights(0)) == f"10.0.1.10:{port}"
    one.process.restart()
    assert session_of(engine.weights(0)) == "10.0.1.10:17003"


def test_ENG_06_a_slow_client_does_not_keep_other_ranks_from_registering(server: Server, tenant):
    body = json.dumps(engine_info(rank=0, weights=weights(1000))).encode()
    head = request("PUT", f"/i/{tenant}{PUT}", headers={"Content-Length": len(body)})
    slow = [Wire(server.process.engine_port).send(head, body[:1000]) for _ in range(100)]
    began = time.monotonic()
    for n in range(1, 9):
        assert server.engine(tenant).publish(rank=n, weights=weights(1000)).status == 200
    # A slow body is waited for 30 s.
    assert time.monotonic() - began < 10
    # The slow one is served too, when it comes to its end.
    assert slow[0].send(body[1000:]).answer().status == 200
    for wire in slow:
        wire.socket.close()


def big(count: int, rank: int) -> bytes:
    return json.dumps(engine_info(rank=rank, weights=weights(count))).encode()


def chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]


@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "chunked"])
def test_ENG_08_sixty_thousand_tensors_are_welcome_and_24_and_200_mb_are_told_the_limit(
    server: Server, tenant, chunked
):
    url = f"{server.process.engine_url}/i/{tenant}{PUT}"
    body = json.dumps(
        engine_info(rank=0, weights={f"{name}.{n}": v for n, (name, v) in enumerate(weights(60_000).items())})
    ).encode()
    assert 4 * 2**20 < len(body) < 7 * 2**20
    stored = requests.put(url, data=chunks(body) if chunked else body, timeout=60)
    assert (stored.status_code, stored.text) == (200, "OK")
    back = server.engine(tenant).weights(0)
    assert len(back.json()["remote_instance_transfer_engine_info"][1]) == 60_000
    for size in (24 * 2**20, 200 * 2**20):
        padded = body + b" " * (size - len(body))
        refused = requests.put(url, data=chunks(padded) if chunked else padded, timeout=60)
        assert refused.status_code == 413
        assert refused.headers["Content-Type"] == "application/json"
        assert str(16 * 2**20) in refused.json()["detail"]
    assert server.engine(tenant).weights(0).body == back.body


def test_ENG_08_a_query_of_200_000_rooms_is_answered(server: Server, tenant):
    kv = server.kv(tenant)
    assert kv.bind(2**62 + 199_999, 0).status == 200
    rooms = ",".join(str(2**62 + n) for n in range(200_000))
    found = kv("POST", "/query_dp_ranks", body=b'{"bootstrap_rooms":[' + rooms.encode() + b"]}")
    assert found.json() == {str(2**62 + 199_999): 0}
    over = kv("POST", "/query_dp_ranks", js={"bootstrap_rooms": [2**62 + n for n in range(210_000)]})
    assert over.status == 413 and str(4 * 2**20) in over.text


def test_ENG_09_eight_replicas_that_pull_at_once_are_all_answered_and_small_answers_keep_coming(server: Server, tenant):
    with ThreadPoolExecutor(8) as pool:
        puts = pool.map(lambda n: server.engine(tenant)("PUT", PUT, body=big(60_000, n), timeout=90).status, range(8))
        assert list(puts) == [200] * 8
        assert server.kv(tenant).bind(7, 0).status == 200
        small = server.kv(tenant, keep=True)
        pulls = [pool.submit(server.engine(tenant).weights, n % 8) for n in range(64)]
        slowest, asked = 0.0, 0
        while not all(pull.done() for pull in pulls):
            began = time.monotonic()
            assert small.find(7).json() == {"7": 0}
            slowest, asked = max(slowest, time.monotonic() - began), asked + 1
    sizes = {n: {len(pull.result().body) for pull in pulls[n::8]} for n in range(8)}
    assert all(len(sizes[n]) == 1 for n in range(8))
    assert all(pull.result().body.startswith(b'{"rank":%d,' % (n % 8)) for n, pull in enumerate(pulls))
    assert asked and slowest / slowness() < 1, f"the slowest of {asked} room queries took {slowest:.2f} s"
