"""Public reports: addresses, ports and Hosts."""

import json
import socket

import pytest

from controlplane.domain.addresses import bracketed
from controlplane.probes.networks import LOOPBACK_FROM_AFAR, ProbePolicy
from tests.cases.ranks import Ranks, complete, eventually, fleet, here
from tests.support.processes import Bootstrap
from tests.wire.client import ALL, Client, rank
from tests.wire.conftest import Server
from tests.wire.operators import rows
from tests.wire.raw import ask, request


def own_address() -> str:
    """An address of this host that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no address but loopback")
        address = str(asking.getsockname()[0])
    if address.startswith("127."):
        pytest.skip("this host has no address but loopback")
    return address


@pytest.fixture
def listening_on(sqlite_backend, tmp_path):
    """`listening_on("::1")` -> a process on that address."""
    started: list[Bootstrap] = []

    def start(host: str) -> Bootstrap:
        process = Bootstrap(sqlite_backend.env, log=tmp_path / "log", PDCP_PROBE_NETWORKS="none")
        process.host, process.env["PDCP_BOOTSTRAP_HOST"] = bracketed(host), host
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.kill9()


@pytest.mark.parametrize("spelling", ["[::ffff:10.0.1.10]", "::FFFF:10.0.1.10", "::ffff:a00:10a", "10.0.1.10"])
def test_NET_01_every_spelling_of_an_address_is_one_row_without_brackets(serve, spelling):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv()
    assert client.put(rank_ip="::ffff:10.0.1.10").status == 200
    events = rows(one.backend, "SELECT count(*) FROM controlplane_event")
    assert client.put(rank_ip=spelling).status == 200
    assert client("GET", "/route", ALL, headers={"Host": "[::1]:8998"}).status == 200
    assert client.slot().json() == {"rank_ip": "10.0.1.10", "rank_port": 41000}
    assert rows(one.backend, "SELECT count(*) FROM controlplane_rank") == [(1,)]
    assert rows(one.backend, "SELECT count(*) FROM controlplane_event") == events


def test_NET_01_an_ipv6_address_has_one_form(server: Server, tenant):
    client = server.kv(tenant)
    for spelling in ("fd00::0:1", "[FD00::1]", "fd00:0:0:0:0:0:0:1"):
        assert client.put(rank_ip=spelling).status == 200
        assert client.slot().json()["rank_ip"] == "fd00::1"


@pytest.mark.parametrize(
    ("host", "addresses"), [("::1", ["::1"]), ("localhost", ["127.0.0.1"]), ("::", ["::1", "127.0.0.1"])]
)
def test_NET_01_the_listener_serves_the_families_it_was_told(listening_on, sqlite_backend, host, addresses):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    process = listening_on(host)
    for address in addresses:
        client = Client(process.kv_port, host=address)
        assert client.put().status == 200
        assert client.topology().status == 200
        assert client.put(rank_port=0).status == 400
    # Who was refused is named as everywhere else: not as IPv4 within IPv6, by which no rank and no network is known.
    told = "SELECT data FROM controlplane_event WHERE kind = 'registration.refused' ORDER BY revision"
    eventually(lambda: len(rows(sqlite_backend, told)) == len(addresses))
    assert [json.loads(data)["source"] for (data,) in rows(sqlite_backend, told)] == addresses


def test_NET_03_a_loopback_address_from_another_host_is_flagged_and_not_probed():
    policy = ProbePolicy()
    for loopback in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert LOOPBACK_FROM_AFAR in policy.flags_for(loopback, "10.0.1.10")
        assert policy.flags_for(loopback, "127.0.0.1") == ()
    assert not policy.may_probe("127.0.0.1", 41000, source_ip="10.0.1.10")


def test_NET_03_on_one_host_loopback_is_accepted_whichever_of_its_addresses_was_asked(listening_on, sqlite_backend):
    process = listening_on("0.0.0.0")
    for address in (own_address(), "127.0.0.1"):
        assert Client(process.kv_port, host=address).put(rank_ip="127.0.0.1").status == 200
        (shown,) = fleet(sqlite_backend)
        assert not [one for one in shown["flagged"] if LOOPBACK_FROM_AFAR in one["flags"]], address


def test_NET_06_start_up_says_on_which_addresses_it_listens(listening_on):
    process = listening_on("127.0.0.1")
    assert f"bootstrap ready kv=127.0.0.1:{process.kv_port} engine=127.0.0.1:{process.engine_port}" in process.log()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((own_address(), process.kv_port), timeout=20)


@pytest.mark.parametrize(("which", "variable"), [("kv_port", "PDCP_KV_PORT"), ("engine_port", "PDCP_ENGINE_INFO_PORT")])
def test_NET_07_a_taken_port_ends_the_process_with_a_sentence(
    server: Server, sqlite_backend, tmp_path, which, variable
):
    taken = getattr(server.process, which)
    process = Bootstrap(sqlite_backend.env, log=tmp_path / "log", **{which: taken}).launch()
    assert process.child.wait(60) == 3
    process.kill9()
    log = process.log()
    assert str(taken) in log and variable in log and "bootstrap ready" not in log
    assert server.kv()("GET", "/livez").status == 200


def test_NET_07_ranks_of_another_instance_are_not_merged_into_a_living_one(watch, ranks: Ranks):
    one: Server = watch()
    client = one.kv()
    own = [ranks.open() for _ in range(2)]
    for tp, port in enumerate(own):
        assert client.put(**here(attn_tp_size=2, attn_tp_rank=tp, rank_port=port)).status == 200
    complete(client)
    before = [client.topology().body, client.slot(tp=0).body, client.slot(tp=1).body]
    strangers = [ranks.open() for _ in range(4)]
    for tp, port in enumerate(strangers):
        put = here(attn_tp_size=4, attn_tp_rank=tp, rank_port=port, page_size=16)
        assert client.put(**put).status in (200, 409)
    shown = eventually(lambda: fleet(one.backend, "default")["candidate"], within=30)
    assert shown["topology"]["tp"] == 4, "it is shown as what it is"
    assert [client.topology().body, client.slot(tp=0).body, client.slot(tp=1).body] == before
    assert client.slot(tp=3).status == 404
    assert client.health() == 200


@pytest.mark.parametrize("reused", [False, True], ids=["new rank ports", "each other's rank ports"])
def test_NET_10_pods_on_one_host_that_swap_ports_keep_their_names_apart(watch, ranks: Ranks, reused):
    """Both restart at once; what one pod listened on is then the other's, and answers."""
    one: Server = watch()
    pods = ("pod-a", "pod-b")
    ports = {pod: ranks.open() for pod in pods}
    http = {"pod-a": 30000, "pod-b": 30010}

    def register() -> None:
        for pod in pods:
            put = here(rank_port=ports[pod], prefill_http_port=http[pod])
            assert one.kv(pod).put(**put).status == 200

    def seen(pod: str) -> tuple[int, int] | None:
        slot, topology = one.kv(pod).slot(), one.kv(pod).topology()
        if slot.status != 200 or topology.status != 200:
            return None
        return slot.json()["rank_port"], topology.json()["prefill_http_port"]

    def follow() -> bool:
        return all(seen(pod) == (ports[pod], http[pod]) for pod in pods)

    register()
    eventually(follow)
    ranks.die(*ports.values())
    if reused:
        for port in ports.values():
            ranks.open(port)
        ports = {"pod-a": ports["pod-b"], "pod-b": ports["pod-a"]}
    else:
        ports = {pod: ranks.open() for pod in pods}
    http = {"pod-a": 30010, "pod-b": 30000}
    register()
    eventually(follow)
    assert {instance["name"] for instance in fleet(one.backend)} == set(pods)


@pytest.mark.parametrize("host", ["10.0.0.5:8998", "10.244.3.7", "cp.default.svc", "[::1]:8998", "", None])
def test_NET_14_the_wire_answers_every_host_alike(server: Server, tenant, host):
    port = server.process.kv_port
    query = "&".join(f"{name}={value}" for name, value in ALL.items())
    version = "1.0" if host is None else "1.1"

    def send(method: str, path: str, body: bytes = b"") -> int:
        answer = ask(port, request(method, path, body, {"Host": host}, version=version))
        assert "<" not in answer.text and "Location" not in answer.headers
        assert "Set-Cookie" not in answer.headers
        return answer.status

    body = str(rank()).replace("'", '"').encode()
    assert send("PUT", f"/i/{tenant}/route", body) == 200
    assert send("GET", f"/i/{tenant}/route?{query}") == 200
    assert send("GET", f"/i/{tenant}/health") == 200
    assert send("GET", f"/i/{tenant}/route/?{query}") == 404
