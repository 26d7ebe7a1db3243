"""Engines of SGLang as it comes: observed beside a stock router and our gateway, behind a relay, and with the control plane as
the directory of their decodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.adoption.fleet import Engines, Traffic, eventually, gateway_for, routed
from tests.support.ports import free_port
from tests.wire.client import Client
from tests.workers.relay.relays import Relay

pytestmark = pytest.mark.timeout(300)

OWN = {"observed": free_port(), "relayed": free_port()}


@pytest.fixture(scope="module")
def relay(plane, token, operator, tmp_path_factory) -> Iterator[Relay]:
    """On the prefill's host before the engine is started, at the port that the engine is configured with."""
    directory: Path = tmp_path_factory.mktemp("relay")
    (directory / "token").write_text(token)
    at = f"127.0.0.1:{plane.bootstrap.kv_port}"
    operator.add("relayed", own_port=OWN["relayed"])
    made = Relay(directory, at, "relayed", "--token-file", str(directory / "token")).start()
    yield made
    made.kill9()
    print(f"--- relay ---\n{made.text()[-6000:]}")


@pytest.fixture(scope="module")
def engines(plane, relay, operator, make_engines) -> dict[str, Engines]:
    """Nothing is installed in them and nothing is told them. Both are started at once: importing SGLang takes long."""
    started = {
        "observed": make_engines("observed"),
        "relayed": make_engines("relayed", kv_port=relay.port),
    }
    observed, relayed = started["observed"], started["relayed"]
    watched = f"http://127.0.0.1:{observed.kv_port}"
    operator.add("observed", own_port=OWN["observed"], engine_url=observed.prefill_url, observed_url=watched)
    plane.command("instances", "edit", "relayed", "--engine-url", relayed.prefill_url)
    for name, one in started.items():
        operator.add(f"{name}-d", role="decode", engine_url=one.decode_url)
    return {name: one.ready() for name, one in started.items()}


def test_observed_with_a_stock_router(plane, router, operator, engines):
    observed = engines["observed"]
    assert observed.own_server, "nothing changes for the engine"
    assert operator.complete("observed")["registered"] == 1
    with routed(router, observed) as traffic:
        traffic.ask()
        plane.bootstrap.kill9()
        for _ in range(3):
            traffic.ask()
        plane.bootstrap.start()
        assert operator.complete("observed")["registered"] == 1


def test_observed_with_our_gateway_and_the_control_plane_as_the_directory_of_decodes(plane, operator, engines):
    operator.complete("observed")
    with gateway_for(plane, "gate-o", "observed", "observed-d") as gateway:
        traffic = Traffic(gateway.url)
        gateway.own_servers["observed"] = ("127.0.0.1", engines["observed"].kv_port)
        traffic.ask()
        # From here on a decode is told our address, and asks us: where the ranks are, we know from their own server.
        del gateway.own_servers["observed"]
        traffic.ask()
        direct = Client(OWN["observed"])
        own = Client(engines["observed"].kv_port)
        assert direct.topology().json() == own.topology().json() and direct.slot().json() == own.slot().json()
        traffic.close()


def test_behind_a_relay_with_a_stock_router(plane, router, operator, engines, relay):
    relayed = engines["relayed"]
    assert not relayed.own_server, "its own server found the port taken, and the engine went on"
    assert operator.complete("relayed")["registered"] == 1
    with routed(router, relayed) as traffic:
        traffic.ask()
        # The control plane is away, and the relay is killed meanwhile: no request fails.
        plane.bootstrap.kill9()
        plane.web.kill9()
        for _ in range(3):
            traffic.ask()
        relay.restart()
        for _ in range(3):
            traffic.ask()
        plane.bootstrap.start()
        plane.web.start()
        relay.until_together()
        traffic.ask()
    assert operator.complete("relayed")["registered"] == 1
    eventually(lambda: beats(operator))


def test_behind_a_relay_with_our_gateway(plane, operator, engines, relay):
    operator.complete("relayed")
    relay.until_together()
    with gateway_for(plane, "gate-y", "relayed", "relayed-d") as gateway:
        traffic = Traffic(gateway.url)
        gateway.own_servers["relayed"] = ("127.0.0.1", relay.port)
        traffic.ask()
        plane.bootstrap.kill9()
        traffic.ask()
        plane.bootstrap.start()
        relay.until_together()
        # The relay is the way by which the engine registers; decodes may ask us as well.
        del gateway.own_servers["relayed"]
        traffic.ask()
        traffic.close()


def beats(operator) -> bool:
    workers = operator.get("instances/relayed/workers")["items"]
    return any(worker["worker"].startswith("relay/") and not worker["late"] for worker in workers)
