"""What an engine's own servers answer, as the observer hears it."""

import asyncio

import msgspec
import pytest
from aiohttp import web

from controlplane.domain.errors import Refused
from controlplane.domain.observing import Heard, State
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.observed import Asker
from controlplane.protocol import observed
from controlplane.protocol.engine_info import read_publication
from tests.doubles.engine import Engine
from tests.doubles.serving import Server
from tests.support.ports import free_port

TOPOLOGY = {
    "attn_tp_size": 2,
    "attn_cp_size": 1,
    "dp_size": 2,
    "pp_size": 1,
    "page_size": 64,
    "kv_cache_dtype": "auto",
    "follow_bootstrap_room": True,
    "enable_dsa_cache_layer_split": False,
    "decode_allocation_policy": "early",
    "enable_kv_cache_sharding": False,
    "prefill_http_port": 30000,
    "target_tp_rank": None,
}


class Answering(Server):
    """Says what a test sets, whatever it is asked."""

    status, body, seconds = 200, b"", 0.0

    def routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/{path:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.seconds)
        return web.Response(status=self.status, body=self.body)


@pytest.fixture
def server():
    started = Answering().start()
    yield started
    started.stop()


ASKER = Asker(ProbePolicy(), weights_limit=100_000)


def topology(url):
    return asyncio.run(ASKER.topology(url))


def test_a_topology_is_read_with_what_all_ranks_share(server):
    server.body = msgspec.json.encode(TOPOLOGY)
    assert topology(server.url) == Heard(State.LISTED, Topology(2, 1, 2, 1), SharedFacts(64, "auto"), 30000)


def test_a_server_that_waits_for_ranks_says_how_many_it_has(server):
    server.status, server.body = 503, b"Prefill server not fully registered yet (3 workers registered)."
    assert topology(server.url) == Heard(State.FILLING, count=3)


STRANGE = [
    (503, b"Service Unavailable"),
    (404, b""),
    (200, b"hello"),
    (200, b"[]"),
    (200, msgspec.json.encode({**TOPOLOGY, "dp_size": 0})),
    (200, msgspec.json.encode({**TOPOLOGY, "dp_size": 10**6, "attn_tp_size": 10**6})),
    (200, b"[" * 40_000),
    (302, b""),
]


@pytest.mark.parametrize(("status", "body"), STRANGE)
def test_whoever_answers_something_else_is_a_stranger(server, status, body):
    server.status, server.body = status, body
    heard = topology(server.url)
    assert heard.state is State.STRANGE and heard.why and heard.topology is None


def test_refused_silent_and_forbidden_are_told_apart(server):
    assert topology(f"http://127.0.0.1:{free_port()}").state is State.REFUSED
    forbidden = asyncio.run(Asker(ProbePolicy(allowed=()), 1000).topology(server.url))
    assert forbidden.state is State.UNASKED and "PDCP_PROBE_NETWORKS" in forbidden.why
    server.seconds = 5.0
    assert topology(server.url).state is State.SILENT


def test_a_slot_is_an_address_or_nobody(server):
    slot = Slot(0, 0, 1, 0)
    server.body = b'{"rank_ip": "10.0.0.1", "rank_port": 4001}'
    assert asyncio.run(ASKER.slot(server.url, slot)) == ("10.0.0.1", 4001)
    server.status = 404
    assert asyncio.run(ASKER.slot(server.url, slot)) is None
    for status, body in (
        (503, b""),
        (200, b'{"rank_ip": "10.0.0.1", "rank_port": 0}'),
        (200, b'{"rank_ip": "two words"}'),
    ):
        server.status, server.body = status, body
        with pytest.raises(Refused):
            asyncio.run(ASKER.slot(server.url, slot))


def test_weights_come_through_to_the_last_digit(server):
    server.body = (
        b'{"rank":3,"remote_instance_transfer_engine_info":["10.0.0.1:7001",{"w":[18446744073709551615,0,2]}]}'
    )
    body = asyncio.run(ASKER.weights(server.url, 3))
    assert body is not None and b"18446744073709551615" in body
    published = read_publication(body)
    assert (published.rank, published.session, published.tensors, published.old_style) == (3, "10.0.0.1:7001", 1, True)
    server.status = 404
    assert asyncio.run(ASKER.weights(server.url, 3)) is None
    server.status, server.body = 200, b'{"rank":3,"remote_instance_transfer_engine_info":["10.0.0.1:7001"]}'
    with pytest.raises(Refused):
        asyncio.run(ASKER.weights(server.url, 3))


def test_an_engine_says_which_start_it_is():
    engine = Engine("prefill", dp=2, key="sk").start()
    try:
        heard, first, said = asyncio.run(ASKER.engine(engine.url, "sk"))
        assert (heard.state, said["mode"], said["version"]) == (State.LISTED, "prefill", "0.5.23")
        assert asyncio.run(ASKER.engine(engine.url, "sk"))[1] == first
        engine.started_at += 1
        assert asyncio.run(ASKER.engine(engine.url, "sk"))[1] not in ("", first)
        assert asyncio.run(ASKER.engine(engine.url, ""))[0].state is State.STRANGE, "it wants a key"
    finally:
        engine.stop()


def test_the_sizes_of_attention_follow_from_what_an_engine_was_started_with():
    told = {
        "disaggregation_mode": "decode",
        "tp_size": 16,
        "dp_size": 4,
        "enable_dp_attention": True,
        "attn_cp_size": 2,
    }
    said = observed.read_server_info(msgspec.json.encode(told))[1]
    assert (said["tp_size"], said["cp_size"], said["world_tp_size"]) == (2, 2, 16)
    told = {
        "disaggregation_mode": "decode",
        "tp_size": 8,
        "dp_size": 4,
        "kv_cache_dtype": "fp8_e5m2",
        "page_size": True,
    }
    said = observed.read_server_info(msgspec.json.encode(told))[1]
    assert (said["tp_size"], said["kv_cache_dtype"], "page_size" in said) == (8, "fp8_e5m2", False)
    with pytest.raises(Refused):
        observed.read_server_info(b'{"version": "1"}')


def test_a_startup_time_is_a_moment_or_a_set_of_durations():
    def start(value):
        return observed.read_server_info(
            msgspec.json.encode({"disaggregation_mode": "prefill", "startup_time": value})
        )[0]

    assert start({"load_weight": 1.5, "cuda_graph": {"a": 1.0}}) == start(
        {"cuda_graph": {"a": 1.0}, "load_weight": 1.5}
    )
    assert start({"load_weight": 1.5}) != start({"load_weight": 1.6}) and start(1.0) != start(2.0)
    assert start(None) == ""
