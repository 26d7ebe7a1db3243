"""Who holds an engine's bootstrap port: told from what really answers there."""

import asyncio
import json

import pytest

from controlplane.domain.engine_health import Memory
from controlplane.probes import bootstrap_port
from controlplane.probes.bootstrap_port import holder
from controlplane.probes.engines import Patient, examine
from controlplane.probes.networks import ProbePolicy
from controlplane.protocol import observed
from tests.controlplane.probes import peers
from tests.controlplane.probes.test_observed import TOPOLOGY, Answering
from tests.doubles.engine import Engine
from tests.support.ports import free_port
from tests.support.processes import Bootstrap

OPEN = ProbePolicy()


def who(port: int, url: str = "http://127.0.0.1:30000", allowed: ProbePolicy = OPEN) -> tuple[str, str]:
    return asyncio.run(holder(url, port, allowed=allowed))


@pytest.fixture
def server():
    started = Answering().start()
    yield started
    started.stop()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, json.dumps(TOPOLOGY).encode()),
        (503, b"Prefill server not fully registered yet (3 workers registered)."),
    ],
)
def test_a_bootstrap_server_is_known_by_what_it_says_of_its_ranks(server, status, body):
    server.status, server.body = status, body
    assert who(server.port) == (f"127.0.0.1:{server.port}", "bootstrap")


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"OK"), (200, b"{}"), (404, b"Not Found"), (503, b"no"), (302, b""), (500, b"")]
)
def test_any_other_http_server_is_a_stranger(server, status, body):
    server.status, server.body = status, body
    assert who(server.port)[1] == "stranger"


def test_a_directory_of_ours_is_known_with_one_instance_with_many_and_with_none(bootstrap: Bootstrap, monkeypatch):
    from tests.wire.client import Client

    # A machine that has other work to do is no silent peer.
    monkeypatch.setattr(bootstrap_port, "SECONDS", 30.0)
    assert who(bootstrap.kv_port)[1] == "ours"
    for name in ("a", "b"):
        assert Client(bootstrap.kv_port, headers={"X-PD-Instance": name}).put().status == 200
        assert who(bootstrap.kv_port)[1] == "ours"
    # Nobody is complained of, and nobody waits for ranks: it was not asked as a decode asks.
    assert "share this listener" not in bootstrap.log_path.read_text()


def test_whoever_speaks_no_http_is_a_stranger_or_silent_and_nobody_is_refused():
    with peers.pull() as port:
        assert who(port)[1] in ("stranger", "silent")
    with peers.speechless() as port:
        assert who(port)[1] == "silent"
    assert who(free_port())[1] == "refused"


def test_what_must_not_be_asked_is_not_asked_and_nothing_is_claimed():
    from controlplane.probes.networks import parse_networks

    with Engine() as engine:
        assert who(engine.port, allowed=ProbePolicy(parse_networks("10.0.0.0/8"))) == ("", "")
        assert engine.asked == []
    assert who(22) == ("", "")


def test_the_prober_looks_whenever_an_engine_says_who_it_is(server):
    server.status, server.body = 200, json.dumps(TOPOLOGY).encode()
    for role, found in (("prefill", "bootstrap"), ("decode", "")):
        with Engine(role, bootstrap_port=server.port) as engine:
            patient = Patient(1, role, engine.url, Memory(engine.url), identify=True)
            heard = asyncio.run(examine(patient, allowed=OPEN, timeout=5))
            assert heard.holder == found


def test_a_port_that_cannot_be_one_is_not_read():
    for said in ({"disaggregation_bootstrap_port": 0}, {"disaggregation_bootstrap_port": "x"}, {}, []):
        assert observed.read_bootstrap_port(json.dumps(said).encode()) is None
    assert observed.read_bootstrap_port(b"{") is None
    assert observed.read_bootstrap_port(b'{"disaggregation_bootstrap_port": 8998}') == 8998
