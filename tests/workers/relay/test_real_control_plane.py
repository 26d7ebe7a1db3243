"""A relay between an engine's processes and a real control plane that comes and goes: nobody notices, and nothing is lost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
import zmq

from tests.support.ports import free_port
from tests.wire.client import Client
from tests.wire.operators import rows
from tests.workers.relay.engines import Engine
from tests.workers.relay.inside import Inside
from tests.workers.relay.relays import Relay
from tests.workers.sdk.plane import RealPlane, real_plane
from tests.workers.sdk.waiting import soon_here
from workers.relay import door
from workers.relay.processes import LaunchIdentity, process_of

numbers = count(1)


@pytest.fixture(scope="module")
def plane(sqlite_template, tmp_path_factory) -> Iterator[RealPlane]:
    """Probes loopback, and wants tokens of those who register."""
    knobs = {"PDCP_PROBE_NETWORKS": "127.0.0.0/8", "PDCP_PROBE_INTERVAL_SECONDS": 0.5, "PDCP_REGISTER_BY": "token"}
    with real_plane(sqlite_template, tmp_path_factory.mktemp("plane"), web=False, **knobs) as started:
        yield started


@pytest.fixture(scope="module")
def token_file(plane, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(plane.token("relays", "register", "resolve") + "\n")
    return path


@pytest.fixture
def relay(plane, token_file, tmp_path) -> Iterator[Relay]:
    at = f"127.0.0.1:{plane.bootstrap.kv_port}"
    made = Relay(tmp_path, at, f"prefill-{next(numbers)}", "--token-file", str(token_file)).start()
    yield made
    made.kill9()
    print(f"--- relay ---\n{made.text()[-6000:]}")


def directory(plane: RealPlane, relay: Relay) -> Client:
    """The control plane's own word on the relay's instance."""
    return Client(plane.bootstrap.kv_port, headers={"X-PD-Instance": relay.instance})


def ports(client: Client, tp: int) -> list[int] | None:
    """Where its ranks are; None while it does not serve all of them."""
    answers = [client.topology(), *(client.slot(tp=n) for n in range(tp))]
    if any(answer.status != 200 for answer in answers):
        return None
    return [answer.json()["rank_port"] for answer in answers[1:]]


def launches(plane: RealPlane, relay: Relay) -> list[str | None]:
    """The tokens of all launches that the control plane ever had of it."""
    what = (
        "SELECT l.token FROM controlplane_launch l JOIN controlplane_instance i ON i.id = l.instance_id"
        f" WHERE i.name = '{relay.instance}' ORDER BY l.number"
    )
    return [token for (token,) in rows(plane.backend, what)]


def test_the_ranks_of_an_engine_register_through_it_as_one_launch(plane, relay, tmp_path):
    relay.until_together()
    with Engine(tmp_path, relay.address, tp=2) as engine:
        assert soon_here(lambda: ports(directory(plane, relay), 2)) == engine.ports
        assert ports(relay.client(), 2) == engine.ports
        asked, through = directory(plane, relay).topology(), relay.client().topology()
        assert (asked.body, asked.content_type, asked.status) == (through.body, through.content_type, through.status)
        (token,) = launches(plane, relay)
        assert token is not None and len(token) == 32, "one token for the processes of one launch"
        status = relay.until(lambda s: s["same_as_control_plane"] and s["serves"])
        assert {rank["process"] for rank in status["launches"][0]["ranks"]} == {str(pid) for pid, _ in engine.ranks}
    # The next start of the engine is another launch.
    with Engine(tmp_path, relay.address, tp=2) as engine:
        soon_here(lambda: ports(directory(plane, relay), 2) == engine.ports)
        soon_here(lambda: ports(relay.client(), 2) == engine.ports)
        assert len(launches(plane, relay)) == 2 and len(set(launches(plane, relay))) == 2


def test_while_the_control_plane_is_away_everything_is_answered_and_afterwards_it_knows_all(plane, relay, tmp_path):
    with Engine(tmp_path, relay.address, tp=2) as engine:
        soon_here(lambda: ports(directory(plane, relay), 2))
        relay.until(lambda s: s["same_as_control_plane"] and s["serves"])
        decode = relay.client(keep=True)
        plane.bootstrap.kill9()
        try:
            for room in range(100, 120):
                assert ports(decode, 2) == engine.ports
                assert (decode.health(), decode.bind(room, 0).status) == (200, 200)
                assert decode.find(room).json() == {str(room): 0}
            relay.restart()
            decode = relay.client(keep=True)
            assert ports(decode, 2) == engine.ports, "what it acknowledged, and was told, is on disk"
            assert decode.find(*range(100, 120)).json() == {str(room): 0 for room in range(100, 120)}
        finally:
            plane.bootstrap.start()
        relay.until_together()
        assert ports(directory(plane, relay), 2) == engine.ports
        assert len(directory(plane, relay).find(*range(100, 120)).json()) == 20
        assert decode.health() == 200 and len(launches(plane, relay)) == 1


def test_an_engine_that_starts_meanwhile_is_served_and_registered_when_the_control_plane_is_back(
    plane, relay, tmp_path
):
    relay.until_together()
    decode = relay.client(keep=True)
    assert decode.health() == 200
    plane.bootstrap.kill9()
    try:
        relay.until_away()
        with Engine(tmp_path, relay.address, tp=2) as first:
            assert ports(decode, 2) == first.ports and decode.health() == 200
        # It ended: what decodes cached of it must go, and they are told so twice.
        soon_here(lambda: decode.health() == 503)
        second = Engine(tmp_path, relay.address, tp=2)
        assert ports(relay.client(), 2) is None, "not before those that poll have been told"
        assert decode.health() == 503
        soon_here(lambda: decode.health() == 200)
        assert ports(decode, 2) == second.ports
    finally:
        plane.bootstrap.start()
    with second:
        relay.until_together()
        said = [decode.health() for _ in range(3)]
        assert said == [200, 200, 200], "who was told here is not told again"
        assert ports(decode, 2) == ports(directory(plane, relay), 2) == second.ports
        assert len(launches(plane, relay)) == 1, "of the one that had ended there was nothing to tell"


def test_a_restart_of_the_engine_is_the_control_planes_to_judge_and_decodes_hear_of_it(plane, relay, tmp_path):
    with Engine(tmp_path, relay.address, tp=1) as first:
        soon_here(lambda: ports(relay.client(), 1))
        relay.until(lambda s: s["same_as_control_plane"] and s["serves"])
        decodes = [relay.client(keep=True) for _ in range(3)]
        assert [decode.health() for decode in decodes] == [200] * 3
        first.end()
        soon_here(lambda: decodes[0].health() == 503)
        assert [decode.health() for decode in decodes[1:]] == [503] * 2
    with Engine(tmp_path, relay.address, tp=1) as second:
        # Each decode is told twice, however few times the relay itself was.
        assert [decode.health() for decode in decodes[:2]] == [503] * 2
        soon_here(lambda: ports(directory(plane, relay), 1) == second.ports)
        assert relay.client().slot().status == 503, (
            "the control plane told all it knows of; one decode here was told once"
        )
        assert decodes[2].health() == 503
        soon_here(lambda: decodes[0].health() == 200)
        assert ports(decodes[0], 1) == second.ports


def test_it_registers_again_what_it_is_asked_for_and_its_silence_is_told(plane, relay, tmp_path):
    with Engine(tmp_path, relay.address, tp=2) as engine:
        soon_here(lambda: ports(directory(plane, relay), 2))
        worker = relay.status()["relay"]
        soon_here(lambda: (2,) in lease(plane, worker, "length(slots) - length(replace(slots, ' ', '')) + 1"))
        plane.command("evict", relay.instance)
        left = f"SELECT count(*) FROM controlplane_event WHERE instance = '{relay.instance}' AND kind = 'rank.left'"
        soon_here(lambda: rows(plane.backend, left) == [(2,)])
        plane.command("reregister", relay.instance)
        soon_here(lambda: ports(directory(plane, relay), 2) == engine.ports)
        relay.kill9()
        soon_here(lambda: lease(plane, worker, "late_since IS NOT NULL") == [(1,)])
        # It is gone, and the ranks are not.
        assert ports(directory(plane, relay), 2) == engine.ports
        relay.start()
        soon_here(lambda: lease(plane, worker, "late_since IS NOT NULL") == [(0,)])


def lease(plane: RealPlane, worker: str, what: str) -> list[tuple]:
    return rows(plane.backend, f"SELECT {what} FROM controlplane_workerlease WHERE worker = '{worker}'")


def test_what_the_control_plane_refuses_is_refused_and_what_its_token_lacks_is_not_the_engines_fault(
    plane, tmp_path, token_file
):
    at = f"127.0.0.1:{plane.bootstrap.kv_port}"
    relay = Relay(tmp_path, at, f"prefill-{next(numbers)}", "--token-file", str(token_file)).start()
    try:
        relay.until_together()
        client = relay.client()
        assert client.put(attn_tp_size=2, rank_ip="127.0.0.1", rank_port=free_port()).status == 200
        differs = client.put(attn_tp_size=2, attn_tp_rank=1, rank_ip="127.0.0.1", rank_port=free_port(), page_size=1)
        assert differs.status == 409 and "page_size" in differs.text
    finally:
        relay.kill9()
    nobody = Relay(tmp_path, at, f"prefill-{next(numbers)}").start()
    try:
        with Engine(tmp_path, nobody.address, tp=1) as engine:
            assert ports(nobody.client(), 1) == engine.ports, "it is served from here"
            said = nobody.until(lambda status: "401" in status["control_plane"]["trouble"])["control_plane"]
            assert said["state"] != "together" and said["to_be_told"]["registrations"] == 1
            assert nobody.text().count("is away") == 1, "said once, however often it is tried"
    finally:
        nobody.kill9()


async def test_an_engine_over_two_hosts_is_one_launch_whose_ranks_have_no_token(
    plane, token_file, tmp_path, monkeypatch
):
    at = f"127.0.0.1:{plane.bootstrap.kv_port}"
    relay = Inside(tmp_path / "inside", at, token_file.read_text().strip(), now=None).open()
    ranks = {"attn_tp_size": 3, "rank_ip": "127.0.0.1"}
    sockets = [zmq.Context.instance().socket(zmq.PULL) for _ in range(3)]
    ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in sockets]
    with closing(sockets[0]), closing(sockets[1]), closing(sockets[2]):
        me = process_of(os.getpid())
        try:
            await relay.upkeep.look()
            with monkeypatch.context() as here:
                here.setattr(door, "_seen", lambda request: (me, LaunchIdentity("run:1")))
                for tp in range(2):
                    assert (await relay.put(**ranks, attn_tp_rank=tp, rank_port=ports[tp])).status == 200
            monkeypatch.setattr(door, "_seen", lambda request: None)
            assert (await relay.put(**ranks, attn_tp_rank=2, rank_port=ports[2])).status == 200
            end = time.monotonic() + 30
            while (await relay.topology()).status != 200:
                assert time.monotonic() < end
                await relay.upkeep.look()
            assert [json.loads((await relay.slot(tp=tp)).body)["rank_port"] for tp in range(3)] == ports
            await relay.upkeep.telling.beat()
            assert not any(seat.put.pending for seat in relay.keeping.holding.seats()), "nobody is asked to come again"
        finally:
            await relay.close()
