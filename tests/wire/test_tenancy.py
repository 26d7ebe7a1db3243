"""Which instance a request means: by prefix, header, Basic user, own port, Host alias, or because there is only one."""

import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlencode

import pytest

from tests.support.ports import free_port, is_open
from tests.wire.client import ALL, TEXT, Client, at, basic, rank
from tests.wire.conftest import Server
from tests.wire.operators import rows
from tests.wire.raw import Wire, request

HOSTS = ("localhost:8998", "127.0.0.1:8998", "10.0.0.5:8998", "10.244.3.7", "cp.default.svc", "[::1]:8998", "")
SLOT_0 = "/route?" + urlencode(at())


def port_of(client: Client) -> int:
    """Whom an answer speaks for: each instance here registers a port of its own."""
    answer = client.slot()
    assert answer.status == 200, answer
    return int(answer.json()["rank_port"])


def until(condition, *, within: float = 15.0) -> None:
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def pair(server: Server) -> Server:
    """Two instances, `left` and `right`, on one listener."""
    for name, port in (("left", 41001), ("right", 41002)):
        assert server.kv(name).put(rank_port=port).status == 200
    return server


# --- Ways to say a name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "port"), [("left", 41001), ("right", 41002)])
def test_a_path_prefix_a_header_and_a_basic_user_name_the_instance(pair: Server, name, port):
    unnamed = pair.kv()
    for path, headers in (
        (f"/i/{name}/route", {}),
        ("/route", {"X-PD-Instance": name}),
        ("/route", basic(name)),
        ("/route", basic(name, "any other password")),
        ("/route", basic(name, "")),
    ):
        answer = unnamed("GET", path, at(), headers=headers)
        assert answer.json()["rank_port"] == port, (path, headers)


def test_a_prefix_wins_over_a_header_and_a_header_over_basic(pair: Server):
    unnamed = pair.kv()
    prefix = unnamed("GET", "/i/left/route", at(), headers={"X-PD-Instance": "right", **basic("right")})
    header = unnamed("GET", "/route", at(), headers={"X-PD-Instance": "left", **basic("right")})
    assert prefix.json()["rank_port"] == header.json()["rank_port"] == 41001


def test_every_path_of_both_wires_exists_under_the_prefix(server: Server, tenant):
    kv, engine = server.kv(), server.engine()
    root = f"/i/{tenant}"
    assert kv("PUT", f"{root}/route", js=rank()).status == 200
    assert kv("POST", f"{root}/register_dp_rank", js={"bootstrap_room": 5, "dp_rank": 0}).status == 200
    assert kv("POST", f"{root}/query_dp_ranks", js={"bootstrap_rooms": [5]}).json() == {"5": 0}
    assert kv("GET", f"{root}/health").status == 200
    assert kv("GET", f"{root}/nothing").status == 404
    info = {"tp_rank": 0, "transfer_engine_info": {"session_id": "10.0.0.1:1", "weights_info_dict": {"w": [1, 2, 4]}}}
    assert engine("PUT", f"{root}/register_transfer_engine_info", js=info).status == 200
    for path in (
        "get_transfer_engine_info",
        "remote_instance_transfer_engine_info",
        "get_remote_instance_transfer_engine_info",
    ):
        answer = engine("GET", f"{root}/{path}", {"rank": 0})
        assert answer.json() == {"rank": 0, "remote_instance_transfer_engine_info": ["10.0.0.1:1", {"w": [1, 2, 4]}]}


@pytest.mark.parametrize("name", ["..", "-x", "x" * 101, "a b", "é", "a\0b", "a/b", "a\nb"], ids=ascii)
def test_a_name_that_cannot_be_is_refused_and_creates_nothing(server: Server, name):
    before = rows(server.backend, "SELECT count(*) FROM controlplane_instance")
    prefixed = server.kv()("PUT", f"/i/{quote(name, safe='')}/route", js=rank())
    as_user = server.kv()("PUT", "/route", js=rank(), headers=basic(name))
    for answer in (prefixed, as_user):
        assert answer.status in (400, 404), answer
        assert answer.content_type == TEXT and "<" not in answer.text
    assert rows(server.backend, "SELECT count(*) FROM controlplane_instance") == before


def test_a_broken_authorization_is_refused_and_another_scheme_names_nobody(serve):
    alone = serve("only", PDCP_PROBE_NETWORKS="none").kv()
    assert alone.put().status == 200
    assert alone("GET", "/route", at(), headers={"Authorization": "Basic ***"}).status == 400
    assert alone("GET", "/route", at(), headers={"Authorization": "Bearer of-something-else"}).status == 200


def test_an_unknown_name_is_404_to_those_who_ask_and_made_by_those_who_register(server: Server, tenant):
    client = server.kv(tenant)
    assert [client.topology().status, client.slot().status, client.health(), client.find(1).status] == [404] * 4
    assert server.engine(tenant).weights(0).status == 404
    assert client.put().status == 200
    assert [client.topology().status, client.slot().status, client.health(), client.find(1).status] == [200] * 4


def test_ranks_that_come_at_once_make_one_instance(server: Server, tenant):
    def register(tp: int) -> int:
        return server.kv(tenant).put(attn_tp_size=16, attn_tp_rank=tp, rank_port=42000 + tp).status

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(register, range(16))) == [200] * 16
    assert rows(server.backend, "SELECT count(*) FROM controlplane_instance WHERE name = ?", tenant) == [(1,)]
    assert server.kv(tenant).topology().json()["attn_tp_size"] == 16


def test_rooms_and_engine_info_of_one_tenant_are_unknown_to_another(pair: Server):
    assert pair.kv("left").bind(77, 0).status == 200
    assert pair.kv("left").find(77).json() == {"77": 0}
    assert pair.kv("right").find(77).json() == {}
    assert pair.engine("left").publish(tp_rank=3).status == 200
    assert pair.engine("left").weights(3).status == 200
    assert pair.engine("right").weights(3).status == 404


def test_a_password_never_reaches_the_log(serve):
    one = serve("only", PDCP_PROBE_NETWORKS="none", LOG_LEVEL="DEBUG")
    secret = "hunter2-very-secret"
    headers = basic("only", secret)
    assert one.kv()("GET", "/health", headers=headers).status == 200
    assert one.kv()("PUT", "/route", js={}, headers=headers).status == 400
    one.kv()("GET", "/route", "a=%ff", headers={"Authorization": f"Basic {secret}"})
    assert secret not in one.process.log()
    assert headers["Authorization"].split()[1] not in one.process.log()


# --- Nobody is named -----------------------------------------------------------------------------------------


def test_the_first_registration_without_a_name_makes_the_default_instance(serve):
    fresh = serve(PDCP_PROBE_NETWORKS="none")
    assert fresh.kv().topology().status == 503
    assert fresh.kv().put().status == 200
    assert fresh.kv().topology().json() == fresh.kv("default").topology().json()
    stored = rows(fresh.backend, "SELECT name, role FROM controlplane_instance")
    assert stored == [("default", "prefill")]


def test_a_single_instance_answers_without_a_name_whatever_it_is_called(serve):
    alone = serve("pod-a", PDCP_PROBE_NETWORKS="none")
    assert alone.kv().put(rank_port=43000).status == 200
    assert port_of(alone.kv()) == port_of(alone.kv("pod-a")) == 43000


def test_two_instances_on_one_listener_make_an_unnamed_request_503_and_an_alarm(pair: Server):
    unnamed = pair.kv()
    answers = [
        unnamed.topology(),
        unnamed.slot(),
        unnamed.put(rank_port=49999),
        unnamed.bind(1, 0),
        unnamed.find(1),
        unnamed("GET", "/health"),
        pair.engine().weights(0),
        pair.engine().publish(tp_rank=0),
    ]
    for answer in answers:
        assert answer.status == 503, answer
        assert "left" in answer.text and "X-PD-Instance" in answer.text, "it says who shares and how to name one"
    assert {port_of(pair.kv("left")), port_of(pair.kv("right"))} == {41001, 41002}


def test_ambiguity_is_told_in_the_log_but_does_not_flood_it(serve):
    two = serve("left", "right")
    for _ in range(200):
        assert two.kv().topology().status == 503

    def about_it() -> list[str]:
        return [line for line in two.process.log().splitlines() if "left" in line and "right" in line]

    until(about_it)
    assert len(about_it()) <= 20


def test_the_moment_a_second_instance_comes_the_first_no_longer_answers_for_both(serve):
    one = serve("first", PDCP_PROBE_NETWORKS="none")
    assert one.kv().put(rank_port=43001).status == 200
    unnamed = one.kv(keep=True)
    # Asked twice, so that the second answer is a prepared one.
    assert port_of(unnamed) == port_of(unnamed) == 43001
    assert one.kv("second").put(rank_port=43002).status == 200
    assert unnamed.slot().status == 503
    one.operator.retire("second")
    until(lambda: unnamed.slot().status == 200)
    assert port_of(unnamed) == 43001


def test_a_decode_instance_shares_no_listener(serve):
    one = serve(PDCP_PROBE_NETWORKS="none")
    one.operator.add("decode-1", role="decode")
    assert one.kv("prefill-1").put(rank_port=43003).status == 200
    until(lambda: one.kv("decode-1").health() == 200)
    assert port_of(one.kv()) == 43003


def test_a_seed_of_weights_takes_the_ranks_of_nobody(serve):
    """It publishes under its name, beside a prefill that no decode names: those go on, also when it has ended."""
    one = serve(PDCP_PROBE_NETWORKS="none")
    assert one.kv().put(rank_port=43004).status == 200
    unnamed = one.kv(keep=True)
    assert port_of(unnamed) == 43004
    assert one.engine("seed-1").publish(rank=0).status == 200
    assert (unnamed.health(), port_of(unnamed), unnamed.bind(7, 0).status) == (200, 43004, 200)
    # Whose weights are meant is another question.
    assert one.engine().weights(0).status == 503
    # A rank of it would be somebody's second prefill.
    assert one.kv("seed-1").put(rank_port=43005).status == 200
    assert (unnamed.health(), unnamed.slot().status) == (503, 503)


def test_a_retired_instance_answers_404_and_takes_no_registration(serve):
    one = serve("old", PDCP_PROBE_NETWORKS="none")
    old = one.kv("old", keep=True)
    assert old.put().status == 200 and old.slot().status == 200
    one.operator.retire("old")
    until(lambda: old.health() == 404)
    assert [old.slot().status, old.topology().status] == [404, 404]
    assert one.engine("old").weights(0).status == 404
    assert 400 <= old.put().status < 500
    assert 400 <= old.bind(1, 0).status < 500
    assert 400 <= one.engine("old").publish(tp_rank=0).status < 500


# --- Own ports -----------------------------------------------------------------------------------------------


def test_an_own_port_opens_live_answers_for_its_instance_and_closes_live(serve):
    one = serve("shared", PDCP_PROBE_NETWORKS="none")
    assert one.kv("shared").put(rank_port=44000).status == 200
    port = free_port()
    one.operator.add("own", own_port=port)
    until(lambda: is_open(port))
    own = Client(port, keep=True)
    assert own.topology().status == 503
    assert own.put(rank_port=44001).status == 200
    assert port_of(own) == port_of(own) == 44001
    # The instance with a port of its own is no second one on the shared listener.
    assert port_of(one.kv()) == 44000
    assert port_of(one.kv("own")) == 44001
    # A name still wins over the port.
    assert Client(port)("GET", "/route", at(), headers={"X-PD-Instance": "shared"}).json()["rank_port"] == 44000
    one.operator.retire("own")
    until(lambda: not is_open(port))
    assert port_of(one.kv()) == 44000


def test_an_own_port_is_open_again_after_a_restart(serve):
    one = serve(PDCP_PROBE_NETWORKS="none")
    port = free_port()
    one.operator.add("own", own_port=port)
    until(lambda: is_open(port))
    assert Client(port).put(rank_port=44002).status == 200
    one.process.restart()
    assert port_of(Client(port)) == 44002


def test_an_own_port_that_is_taken_stops_nobody_else(serve):
    one = serve("fine", PDCP_PROBE_NETWORKS="none")
    with Wire(one.process.kv_port) as taken:
        port = taken.socket.getsockname()[1]
        one.operator.add("unlucky", own_port=port)
        until(lambda: one.kv("unlucky").health() == 200)
        assert one.kv("fine").put().status == 200
        until(lambda: str(port) in one.process.log())


def test_one_request_in_the_same_bytes_means_another_instance_on_another_port(serve):
    one = serve(PDCP_PROBE_NETWORKS="none")
    ports = [free_port(), free_port()]
    for n, port in enumerate(ports):
        one.operator.add(f"own-{n}", own_port=port)
    for n, port in enumerate(ports):
        until(lambda port=port: is_open(port))
        assert Client(port).put(rank_port=45000 + n).status == 200
    same_bytes = request("GET", SLOT_0)
    with Wire(ports[0]) as first, Wire(ports[1]) as second:
        for _ in range(3):
            for n, wire in enumerate((first, second)):
                assert wire.send(same_bytes).answer().json()["rank_port"] == 45000 + n


# --- Host ----------------------------------------------------------------------------------------------------


def test_a_host_alias_names_its_instance_whatever_its_case_and_port(serve):
    one = serve("plain", PDCP_PROBE_NETWORKS="none")
    one.operator.add("aliased", host_alias="prefill-a.example.org")
    for name, port in (("plain", 46000), ("aliased", 46001)):
        until(lambda name=name: one.kv(name).health() == 200)
        assert one.kv(name).put(rank_port=port).status == 200
    for host in (
        "prefill-a.example.org",
        "prefill-a.example.org:8998",
        "PREFILL-A.Example.ORG:1",
        "prefill-a.example.org.:2",
    ):
        answer = one.kv()("GET", "/route", at(), headers={"Host": host})
        assert answer.status == 200, (host, answer)
        assert answer.json()["rank_port"] == 46001
    # Only equality counts, and any name wins over it.
    for host in ("x.prefill-a.example.org", "prefill-a", "localhost", "127.0.0.1:8998"):
        assert one.kv()("GET", "/route", at(), headers={"Host": host}).status == 503, host
    named = one.kv("plain")("GET", "/route", at(), headers={"Host": "prefill-a.example.org"})
    assert named.json()["rank_port"] == 46000


def test_dir_02_every_spelling_of_one_listener_is_one_instance(serve):
    one = serve(PDCP_PROBE_NETWORKS="none")
    assert one.kv().put().status == 200
    answers = {one.kv()("GET", "/route", query, headers={"Host": host}).body for host in HOSTS for query in (ALL,)}
    assert len(answers) == 1
    assert len({one.kv()("GET", "/route", at(), headers={"Host": host}).body for host in HOSTS}) == 1
    for host in HOSTS:
        assert one.kv()("PUT", "/route", js=rank(), headers={"Host": host}).status == 200
    assert rows(one.backend, "SELECT name FROM controlplane_instance") == [("default",)]
    assert rows(one.backend, "SELECT count(*) FROM controlplane_rank WHERE left_at IS NULL") == [(1,)]
    through_name = Client(one.process.kv_port, host="localhost")
    assert port_of(through_name) == 41000


def test_net_14_the_wire_answers_every_host_without_token_slash_or_redirect(serve):
    one = serve(PDCP_PROBE_NETWORKS="none")
    for host in HOSTS:
        headers = {"Host": host}
        put = one.kv()("PUT", "/route", js=rank(), headers=headers)
        look = one.kv()("GET", "/route", ALL, headers=headers)
        health = one.kv()("GET", "/health", headers=headers)
        slash = one.kv()("GET", "/route/", ALL, headers=headers)
        assert (put.status, look.status, health.status, slash.status) == (200, 200, 200, 404), host
        assert (put.content_type, health.body) == (TEXT, b"OK")
        assert not any("<" in answer.text for answer in (put, look, health, slash))
    for raw in (b"GET /health HTTP/1.0\r\n\r\n", f"GET {SLOT_0} HTTP/1.0\r\n\r\n".encode()):
        with Wire(one.process.kv_port) as wire:
            assert wire.send(raw).answer().status == 200


# --- Prepared answers ----------------------------------------------------------------------------------------


def test_a_prepared_answer_goes_with_what_it_was_made_from(serve):
    """The same bytes again and again, while everything that could give them another meaning changes."""
    one = serve("a", PDCP_PROBE_NETWORKS="none")
    assert one.kv("a").put(rank_port=47000).status == 200
    with Wire(one.process.kv_port) as wire:

        def asked(headers: dict[str, str]) -> int | str:
            answers = [wire.send(request("GET", SLOT_0, headers=headers)).answer() for _ in range(3)]
            assert len({answer.body for answer in answers}) == 1
            return answers[0].json()["rank_port"] if answers[0].status == 200 else answers[0].status

        alias = {"Host": "alias.example.org"}
        assert (asked({}), asked(alias)) == (47000, 47000)
        one.operator.add("b", host_alias="alias.example.org")
        until(lambda: one.kv("b").health() == 200)
        assert (asked({}), asked(alias)) == (503, 503)
        assert one.kv("b").put(rank_port=47001).status == 200
        assert (asked({}), asked(alias), asked({"X-PD-Instance": "a"})) == (503, 47001, 47000)
        one.operator.retire("a")
        until(lambda: one.kv("a").health() == 404)
        assert (asked({}), asked(alias), asked({"X-PD-Instance": "a"})) == (47001, 47001, 404)


def test_a_prepared_answer_is_not_given_to_a_request_that_only_resembles_it(pair: Server):
    with Wire(pair.process.kv_port) as wire:
        left = request("GET", SLOT_0, headers={"X-PD-Instance": "left"})
        for _ in range(3):
            assert wire.send(left).answer().json()["rank_port"] == 41001
        # The same bytes as the tail of one request and the whole of the next, in one write.
        right = request("GET", SLOT_0, headers={"X-PD-Instance": "right"})
        wire.send(right + left + right)
        assert [wire.answer().json()["rank_port"] for _ in range(3)] == [41002, 41001, 41002]
        # The memoed bytes as the body of another request.
        body_first = request("POST", "/query_dp_ranks", left, {"X-PD-Instance": "right"})
        wire.send(body_first[: -len(left)])
        time.sleep(0.05)
        wire.send(left)
        assert wire.answer().status == 400


def test_many_tenants_are_each_answered_for_themselves(serve):
    one = serve(*(f"t{n}" for n in range(40)), PDCP_PROBE_NETWORKS="none")
    for n in range(40):
        assert one.kv(f"t{n}").put(rank_port=40000 + n, page_size=n + 1).status == 200

    def storm(worker: int) -> None:
        client = one.kv(keep=True)
        for step in range(200):
            n = (worker * 7 + step * 11) % 40
            answer = client("GET", "/route", at(), headers={"X-PD-Instance": f"t{n}"})
            assert answer.json()["rank_port"] == 40000 + n
            topology = client("GET", f"/i/t{n}/route", ALL)
            assert topology.json()["page_size"] == n + 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(storm, range(8)))
