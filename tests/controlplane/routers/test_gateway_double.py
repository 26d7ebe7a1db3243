"""The gateway that tests use, over the real API: it follows, acknowledges, respects cordons, reports, and survives."""

import threading
import time

import httpx
import pytest
from django.contrib.auth.models import User

from controlplane.access import tokens
from controlplane.commands import intent
from controlplane.ledger.tail import after, head
from controlplane.models import OpenRooms
from controlplane.queries import gateways as queries
from tests.controlplane.routers.fleet import WHO, told
from tests.controlplane.routers.real import eventually
from tests.doubles.gateway import Gateway
from tests.support.web import Web


@pytest.fixture
def web(on_backend, tmp_path):
    started = Web(on_backend.env, log=tmp_path / "web.log").start()
    yield started
    started.kill9()


@pytest.fixture
def double(fleet, web):
    """A prefill of two DP groups and a decode behind a gateway; the web process is a real one."""
    fleet.prefill("p", dp=2)
    fleet.decode("d")
    anna = User.objects.create_superuser("anna")
    _, token = tokens.make("gw", ["read", "gateway"], "", None, anna, "a test")
    with Gateway("gw", web.url, token, lease_seconds=2) as started:
        eventually(lambda: started.acknowledged is not None)
        yield started


def caught_up(double: Gateway) -> None:
    eventually(lambda: double.acknowledged == (head().ledger_id, head().revision))


def ask(double: Gateway) -> int:
    with httpx.Client(trust_env=False, timeout=30) as http:
        return http.post(f"{double.url}/generate", json={"text": "hello"}).status_code


def test_a_gateway_s_life(double, fleet, web):
    prefill = fleet.engines["p"]
    assert [event.data["gateway"] for event in told("gateway.joined")] == ["gw"]
    assert {ask(double) for _ in range(8)} == {200}
    assert {room % 2 for room in prefill.rooms} == {0, 1}

    # A cordoned group gets no rooms once the gateway has acknowledged it.
    intent.cordon("p", group=1, **WHO)
    caught_up(double)
    seen = len(prefill.rooms)
    assert {ask(double) for _ in range(8)} == {200}
    assert {room % 2 for room in prefill.rooms[seen:]} == {0}
    assert queries.gateway("gw").has_acknowledged(head())

    # What is open is said, zero included.
    def rooms() -> dict[int, int]:
        return dict(OpenRooms.objects.filter(instance="p", source="gw").values_list("group", "open_rooms"))

    prefill.hold = True
    client = threading.Thread(target=ask, args=(double,))
    client.start()
    eventually(lambda: rooms() == {0: 1, 1: 0})
    prefill.release()
    client.join()
    eventually(lambda: rooms() == {0: 0, 1: 0})

    # A leg that fails opens its own breaker, and nobody else's.
    prefill.answers = 500
    assert {ask(double) for _ in range(3)} == {500}
    assert ask(double) == 503
    eventually(lambda: [(e.instance, e.data["after"]) for e in told("breaker.turned")] == [("p", "open")])
    eventually(lambda: sum(row.count for row in queries.outcomes(since_minute=0)) >= 19)

    # The control plane goes away, and comes back: the gateway serves on from what it has.
    prefill.answers = 200
    double.shut.clear()
    web.kill9()
    assert ask(double) == 200
    web.start()
    intent.uncordon("p", group=1, **WHO)
    caught_up(double)

    # Deaf: it goes on serving, and its lease runs out. Then it leaves.
    double.deaf = double.mute = True
    eventually(lambda: queries.gateway("gw").silent(time.time()))
    double.deaf = double.mute = False
    eventually(lambda: not queries.gateway("gw").silent(time.time()))
    double.leave()
    assert queries.listing() == () and told("gateway.left")
    assert after(0)[-1].kind == "gateway.left"
