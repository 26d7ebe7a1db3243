"""Engines with the plugin: reported beside a stock router and our gateway, authoritative behind our gateway and a relay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.adoption.fleet import ALL, Engines, Traffic, eventually, gateway_for, routed
from tests.support.ports import free_port
from tests.workers.relay.relays import Relay

pytestmark = pytest.mark.timeout(300)

NAMES = ("reported", "authority", "behind")


@pytest.fixture(scope="module")
def relay(plane, token, operator, tmp_path_factory) -> Iterator[Relay]:
    """On the host of the engine `behind`, in place of its bootstrap server."""
    directory = tmp_path_factory.mktemp("relay")
    (directory / "token").write_text(token)
    made = Relay(directory, f"127.0.0.1:{plane.bootstrap.kv_port}", "behind", "--token-file", str(directory / "token"))
    operator.add("behind")
    yield made.start()
    made.kill9()
    print(f"--- relay ---\n{made.text()[-5000:]}")


@pytest.fixture(scope="module")
def engines(plane, token, operator, relay, make_engines) -> dict[str, Engines]:
    """All kinds are started at once: what takes long is importing SGLang."""
    started = {}
    for name in NAMES:
        relayed = name == "behind"
        started[name] = one = make_engines(
            name,
            kv_port=relay.port if relayed else None,
            PD_CONTROL_PLANE=relay.address if relayed else f"127.0.0.1:{plane.bootstrap.kv_port}",
            PD_ENGINE_INFO=f"127.0.0.1:{plane.bootstrap.engine_port}",
            PD_API=plane.web.url,
            PD_INSTANCE=name,
            PD_TOKEN=token,
            PD_MODE="report" if name == "reported" else "authority",
            PD_LEASE_SECONDS=3,
        )
        if not relayed:
            operator.add(name, own_port=free_port(), engine_url=one.prefill_url)
            operator.add(f"{name}-d", role="decode", engine_url=one.decode_url)
    return {name: one.ready() for name, one in started.items()}


def test_reported_with_a_stock_router(plane, router, operator, engines) -> None:
    reported = engines["reported"]
    assert reported.own_server, "nothing changes for the engine"
    told = operator.complete("reported")
    assert told["registered"] == 1
    with routed(router, reported) as traffic:
        room = traffic.ask()
        operator.way(room, proven=ALL)
        assert operator.get(f"explain/room/{room}")["conclusion"]["kind"] == "consumed"
        # The control plane is away: nobody notices, and when it is back nobody has to do anything.
        plane.bootstrap.kill9()
        plane.web.kill9()
        rooms = [traffic.ask() for _ in range(5)]
        plane.bootstrap.start()
        plane.web.start()
        for room in rooms:
            operator.way(room, proven=ALL)
    beaten(operator, "reported")


def test_reported_with_our_gateway(plane, operator, engines) -> None:
    with gateway_for(plane, "gate-r", "reported", "reported-d") as gateway:
        traffic = Traffic(gateway.url)
        # Decodes ask the engine's own server, or ours, which says the same.
        gateway.own_servers["reported"] = ("127.0.0.1", engines["reported"].kv_port)
        operator.way(traffic.ask(), proven=ALL)
        del gateway.own_servers["reported"]
        operator.way(traffic.ask(), proven=ALL)
        traffic.close()


def test_authority_with_a_stock_router_and_a_relay(plane, router, operator, relay, engines) -> None:
    """The router names the prefill's host, always: there the relay answers, whether we are there or not."""
    relayed = engines["behind"]
    assert not relayed.own_server
    assert operator.complete("behind")["registered"] == 1
    with routed(router, relayed) as traffic:
        operator.way(traffic.ask(), proven=ALL)
        plane.bootstrap.kill9()
        plane.web.kill9()
        relay.until_away()
        rooms = [traffic.ask() for _ in range(5)]
        plane.bootstrap.start()
        plane.web.start()
        for room in rooms:
            operator.way(room, proven=ALL)
    relay.until_together()
    assert operator.complete("behind")["registered"] == 1
    beaten(operator, "behind")


def test_authority_with_our_gateway(plane, operator, engines) -> None:
    authority = engines["authority"]
    assert not authority.own_server
    assert operator.complete("authority")["registered"] == 1
    with gateway_for(plane, "gate-a", "authority", "authority-d") as gateway:
        traffic = Traffic(gateway.url)
        operator.way(traffic.ask(), proven=ALL)
        traffic.close()
    beaten(operator, "authority")


def beaten(operator, name: str) -> None:
    """Its worker's lease is kept up, and it said how many rooms are open: none."""

    def fresh() -> bool:
        workers = operator.get(f"instances/{name}/workers")["items"]
        return bool(workers) and all(not worker["late"] for worker in workers)

    eventually(fresh)
