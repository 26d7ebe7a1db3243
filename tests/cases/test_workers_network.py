"""Public reports, the workers' half: addresses, ports and who is told which."""

import json
import os
import socket
import subprocess
import sys
import uuid

import pytest

from tests.cases.test_network import listening_on, own_address
from tests.cases.test_workers_reaching import GENEROUS, TP1, at, ports, rank_on
from tests.support.processes import ROOT, clean_env
from tests.wire.conftest import Server
from tests.wire.tokens import make, with_admin
from tests.workers.sdk.server import Said, serving
from workers.collective import Launch, NotInitialised, agree
from workers.collective.message import encode
from workers.sdk import (
    BadAddress,
    Client,
    ControlPlane,
    NotAdvertisable,
    NotAllowed,
    NotFound,
    NotReady,
    TimedOut,
    check_published,
    is_fake,
    read_place,
    requested_place,
)

__all__ = ["listening_on"]

FIND_OWN = """
import json, sys
from workers.sdk import own_address, read_place, NotAdvertisable
plane, given = sys.argv[1], json.loads(sys.argv[2])
try:
    found = own_address(read_place(plane), **given)
    print(json.dumps({"host": found.host, "why": found.why}))
except NotAdvertisable as problem:
    print(json.dumps({"refused": problem.sentence}))
"""


@pytest.mark.parametrize("spelling", ["[::1]:{}", "localhost:{}", "127.0.0.1:{}", "http://[::1]:{}/"])
def test_NET_01_every_spelling_of_the_bootstrap_address_reaches_a_server_of_both_families(listening_on, spelling):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    process = listening_on("::")
    with Client(ControlPlane.at(spelling.format(process.kv_port)), token="launch-1") as client:
        client.register([rank_on(41000, rank_ip="[::ffff:10.0.1.10]")]).wait(within=GENEROUS)
        (target,) = client.until_ready(TP1, within=GENEROUS).targets(0)
        assert target.endpoint == "tcp://10.0.1.10:41000"


def test_NET_01_a_bare_ipv6_address_takes_the_usual_port_and_endpoints_have_brackets():
    for text in ("::1", "[::1]"):
        place = read_place(text)
        assert (place.host, place.port, place.endpoint, place.is_ipv6) == ("::1", 8998, "tcp://[::1]:8998", True)


def test_NET_03_a_worker_does_not_advertise_loopback_to_a_control_plane_on_another_host():
    afar = ControlPlane.at("192.0.2.1:8998")
    with Client(afar, token="launch-1") as client:
        with pytest.raises(NotAdvertisable, match=r"127\.0\.0\.1 is loopback, and the control plane at 192\.0\.2\.1"):
            client.register([rank_on(41000)])
        client.register([rank_on(41000, rank_ip=own_address())])


def test_NET_04_the_own_address_is_found_without_a_default_route_and_without_names(tmp_path):
    """In a network of its own: first loopback alone, then one interface with 10.0.1.10/24 and nothing else."""
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "list"], capture_output=True).returncode != 0:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("a network of its own needs root, and `ip netns`")
    name = f"pd-own-{uuid.uuid4().hex[:6]}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def find(plane: str, **given: object) -> dict[str, str]:
        command = ["ip", "netns", "exec", name, sys.executable, "-c", FIND_OWN, plane, json.dumps(given)]
        done = subprocess.run(command, cwd=ROOT, env=clean_env(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        alone = find("10.0.1.5:8998")
        assert "no route from here" in alone["refused"] and "SGLANG_HOST_IP" in alone["refused"]
        ip("-n", name, "link", "add", "eth7", "type", "veth", "peer", "name", "far")
        ip("-n", name, "addr", "add", "10.0.1.10/24", "dev", "eth7")
        for end in ("eth7", "far"):
            ip("-n", name, "link", "set", end, "up")
        routed = find("10.0.1.5:8998")
        assert routed["host"] == "10.0.1.10" and "way to the control plane" in routed["why"]
        assert find("10.0.1.5:8998", interface="eth7")["why"] == "it is the address of interface eth7"
        assert find("10.0.1.5:8998", environ={"SGLANG_LOCAL_IP_NIC": "eth7"})["host"] == "10.0.1.10"
        explicit = find("10.0.1.5:8998", environ={"SGLANG_HOST_IP": "10.0.1.10"}, interface="lo")
        assert explicit == {"host": "10.0.1.10", "why": "SGLANG_HOST_IP says so"}
        assert "no address of this host" in find("10.0.1.5:8998", explicit="10.0.1.11")["refused"]
        assert "loopback" in find("10.0.1.5:8998", interface="lo")["refused"]
        # The control plane is out of reach by route, but an address was given: that is enough.
        assert find("203.0.113.1:8998", explicit="10.0.1.10")["host"] == "10.0.1.10"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::", "[::1]"])
def test_NET_06_a_loopback_or_wildcard_bootstrap_host_is_not_published_and_a_routable_one_is_named(host):
    with pytest.raises(BadAddress, match=r"10\.0\.1\.10 is an address of this host"):
        check_published(host, instead="10.0.1.10")
    assert check_published("10.0.0.5") == "10.0.0.5"


class ToldByLeader:
    """A process group of two nodes in which the leader has spoken."""

    rank, size = 2, 4

    def __init__(self, port: int) -> None:
        self.port = port

    def broadcast(self, said: bytes, *, within: float) -> bytes:
        return encode(Launch(self.port, "launch-of-the-leader"))


def test_NET_09_all_nodes_register_at_the_leader_s_port_and_without_a_group_none_guesses(server: Server, tenant):
    """Over real gloo, on two hosts: tests/workers/collective/test_over_gloo.py."""
    port = server.process.kv_port
    own = Launch(9123, "own")
    with pytest.raises(NotInitialised, match="init_process_group"):
        agree(own, nnodes=2, group=lambda: None)
    assert agree(own, nnodes=1, group=lambda: pytest.fail("one node asks nobody")) == own
    clients = []
    try:
        for node in range(2):
            launch = Launch(port, "launch-of-the-leader") if node == 0 else agree(
                own, nnodes=2, group=lambda: ToldByLeader(port)
            )  # fmt: skip
            assert launch == Launch(port, "launch-of-the-leader")
            plane = ControlPlane.at(f"127.0.0.1:{launch.port}", instance=tenant)
            clients.append(Client(plane, token=launch.token))
            tps = (2 * node, 2 * node + 1)
            kept = clients[-1].register([rank_on(41000 + tp, attn_tp_size=4, attn_tp_rank=tp) for tp in tps])
            kept.wait(within=GENEROUS)
            if node == 0:
                with pytest.raises(NotReady, match="2 workers registered"):
                    clients[0].resolve(TP1)
        assert ports(clients[0].until_ready(TP1, within=GENEROUS)) == [41000, 41001, 41002, 41003]
    finally:
        for client in clients:
            client.close()


def test_NET_12_a_missing_or_impossible_bootstrap_address_is_refused_and_nobody_is_asked(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was looked up"))
    for host in (None, "", "None", "null", "  "):
        with pytest.raises(BadAddress, match="bootstrap_host is missing") as refused:
            requested_place(host, 8998)
        assert refused.value.status == 400
    for port in (None, 0, 70000, "x", "0", -1, True, ""):
        with pytest.raises(BadAddress, match="bootstrap_port"):
            requested_place("10.0.0.5", port)
    assert str(requested_place("10.0.0.5", "8998")) == "10.0.0.5:8998"
    assert is_fake("2.2.2.2"), "health generation has no peer"


@pytest.mark.parametrize("status", [401, 403])
def test_SEC_01_a_worker_sends_the_token_of_its_instance_to_nobody_else_and_never_logs_it(caplog, status):
    caplog.set_level(0)
    secret = "pdcp_" + "5" * 64
    with serving(lambda heard: Said(status, b"no")) as own, serving(lambda heard: Said(404)) as other:
        plane = ControlPlane(own.place, own.place, None, "prefill-a", secret)
        assert secret not in repr(plane)
        with Client(plane, token="launch-1") as client:
            kept = client.register([rank_on(41000)])
            with pytest.raises(NotAllowed, match=f"answered {status}"):
                client.resolve(TP1)
            with pytest.raises(NotFound, match="404"):
                client.resolve(TP1, place=other.place)
            with pytest.raises(TimedOut, match="not registered"):
                kept.wait(within=0.2)
            assert not kept.standing.is_registered
        assert all(heard.headers["x-pd-token"] == secret for heard in own.heard)
        assert other.heard and not any("x-pd-token" in heard.headers for heard in other.heard)
    assert secret not in caplog.text


def test_SEC_01_with_the_right_token_a_worker_registers_where_only_tokens_may_write(serve):
    one: Server = serve("a", PDCP_REGISTER_BY="token", PDCP_PROBE_NETWORKS="none")
    with_admin(one.backend)
    right = make(one.backend, "worker", "register", instance="a")
    with Client(at(one, "a", token=right), token="launch-1") as client, Client(at(one, "a"), token="x") as stranger:
        client.register([rank_on(41000)]).wait(within=GENEROUS)
        assert ports(stranger.until_ready(TP1, within=GENEROUS)) == [41000], "reads stay open"
        with pytest.raises(NotAllowed, match="answered 401"):
            stranger.bind(7, 0)
    assert right not in one.process.log()
