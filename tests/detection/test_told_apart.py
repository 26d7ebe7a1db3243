"""Four ways not to answer, told apart: frozen, out of reach, another program, and dead. Only the last costs a rank its slot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.cases.ranks import Ranks, eventually, fleet, here
from tests.controlplane.probes import peers
from tests.detection.nursery import Nursery, Rank
from tests.doubles.engine import Engine
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap, manage
from tests.wire.client import Client
from tests.wire.operators import rows

CONTACTS = """SELECT i.name, r.contact FROM controlplane_rank r JOIN controlplane_instance i ON i.id = r.instance_id
WHERE r.left_at IS NULL AND i.name NOT LIKE 'neighbour%'"""
WITHIN = 40.0
"""For what takes three seconds, on a machine that may have other work to do."""


@pytest.fixture
def bootstrap(sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap]) -> Bootstrap:
    # It is stopped for a moment, while addresses change hands; nobody else is to take over meanwhile.
    return make_bootstrap(sqlite_backend, PDCP_LEASE_SECONDS=30).start()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def client(bootstrap: Bootstrap, name: str) -> Client:
    return Client(bootstrap.kv_port, headers={"X-PD-Instance": name})


def contacts(backend: Backend) -> dict[str, str]:
    return dict(rows(backend, CONTACTS))


@pytest.mark.timeout(180)
def test_frozen_out_of_reach_a_stranger_and_dead_are_four_things(
    bootstrap: Bootstrap, sqlite_backend: Backend, nursery: Nursery, ranks: Ranks, stack: ExitStack
):
    real: dict[str, Rank] = {name: nursery.bear(bootstrap.kv_port, name) for name in ("frozen", "dead")}
    for rank in real.values():
        stack.callback(_end, rank)
    ports = {"unreached": ranks.open(), "stranger": ranks.open()}
    for name, port in ports.items():
        assert client(bootstrap, name).put(**here(rank_port=port)).status == 200
    for number in range(8):
        assert client(bootstrap, f"neighbour-{number}").put(**here(rank_port=ranks.open())).status == 200
    names = [*real, *ports]
    eventually(lambda: contacts(sqlite_backend) == dict.fromkeys(names, "up"), within=WITHIN)
    served = {name: client(bootstrap, name).slot().json() for name in names}

    bootstrap.freeze()
    real["frozen"].freeze()
    real["dead"].kill9()
    ranks.die(*ports.values())
    stack.enter_context(peers.full(ports["unreached"]))
    stack.enter_context(Engine(port=ports["stranger"]))
    bootstrap.thaw()

    wanted = {"frozen": "silent", "unreached": "unreached", "stranger": "stranger"}
    eventually(lambda: contacts(sqlite_backend) == wanted, within=WITHIN)
    assert client(bootstrap, "dead").health() == 503
    assert client(bootstrap, "dead").slot().status == 503
    # Whoever is merely not heard keeps its slot, and its decodes keep what they know of it.
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for name in wanted:
            assert client(bootstrap, name).health() == 200
            assert client(bootstrap, name).slot().json() == served[name]
        time.sleep(0.3)
    assert contacts(sqlite_backend) == wanted, "it does not flap"
    said = {name: manage("explain", name, env=bootstrap.env).stdout for name in names}
    assert len(set(said.values())) == len(names)

    real["frozen"].thaw()
    eventually(lambda: contacts(sqlite_backend)["frozen"] == "up", within=WITHIN)
    assert client(bootstrap, "frozen").slot().json() == served["frozen"]


def test_an_http_server_at_a_registered_port_is_called_a_stranger_from_the_first_probe_on(
    bootstrap: Bootstrap, sqlite_backend: Backend
):
    with Engine() as engine:
        put = here(rank_port=engine.port)
        assert client(bootstrap, "impostor").put(**put).status == 200
        eventually(lambda: contacts(sqlite_backend) == {"impostor": "stranger"}, within=WITHIN)
        for _ in range(15):
            assert contacts(sqlite_backend) == {"impostor": "stranger"}
            time.sleep(0.1)
        # While it is there: who refuses afterwards leaves.
        (rank,) = fleet(sqlite_backend, "impostor")["ranks"]
    assert (rank["contact"], rank["greeted"]) == ("stranger", False)


def _end(rank: Rank) -> None:
    with suppress(ProcessLookupError):
        rank.kill9()
