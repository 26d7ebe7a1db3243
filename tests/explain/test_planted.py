"""Twelve faults, really planted beside each other: each explanation names its own, only that one, and the next step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.routers.real import RealRouter, eventually
from tests.detection.nursery import Nursery
from tests.explain.ground import WITHIN, Ground, Reachable, causes, somebody_elses_port
from tests.explain.other_room import transferred_with_another_room

pytestmark = pytest.mark.timeout(240)

ROOM, OVER, MOVED = 7_301_442_885_913_264_061, 7_301_442_885_913_264_062, 7_301_442_885_913_264_063


@pytest.fixture(scope="module")
def fallen(nursery: Nursery, ground: Ground) -> Ground:
    """Real ranks that fall after they were well, and real ranks that are never well."""
    real = {name: nursery.bear(ground.kv_port, name) for name in ("dead", "silent")}
    host = Reachable("127.0.0.7")
    ground.stack.callback(host.close)
    ground.rank("partition", port=host.port, ip=host.ip)
    for name in ("lonely", "paged", "nameless"):
        ground.add(name)
    nursery.send_forth(ground.kv_port, "lonely", shape="2,1,1,1")
    nursery.send_forth(ground.kv_port, "paged", shape="1,1,2,1")
    until_there(ground, "paged")
    nursery.send_forth(ground.kv_port, "paged", shape="1,1,2,1", slot="0,0,1,0", page_size=16)
    # Many instances share the listener by now, and this rank names none, as unmodified engines do.
    nursery.send_forth(ground.kv_port)
    for name in ("dead", "silent", "partition"):
        ground.until(name, "well")
    real["dead"].kill9()
    real["silent"].freeze()
    host.cut()
    return ground


@pytest.fixture(scope="module")
def held(ground: Ground) -> Ground:
    """Ports that are somebody else's."""
    plant = ground.stack.enter_context
    ground.add("taken", own_port=plant(somebody_elses_port()))
    ground.rank("stale", port=plant(somebody_elses_port()))
    ground.engine("squatted", bootstrap_port=plant(somebody_elses_port()))
    return ground


@pytest.fixture(scope="module")
def roomy(ground: Ground) -> Ground:
    """A prefill that serves, for rooms to be in."""
    ground.rank("roomy")
    ground.until("roomy", "well")
    return ground


@pytest.fixture(scope="module")
def chosen(ground: Ground, routers: tuple[RealRouter, RealRouter]) -> Ground:
    """One router sends to a prefill that fails; the other one is killed while its prefill is well."""
    breaking, dying = routers
    failing = ground.engine("opened")
    ground.engine("fronted")
    ground.engine("decode-1", "decode")
    ground.route(breaking, "breaking", "opened", "decode-1")
    ground.route(dying, "dying", "fronted")
    eventually(lambda: len(breaking.workers()) == 2 and len(dying.workers()) == 1, within=WITHIN)
    ground.until("fronted", "well")
    failing.answers = 500

    def opens() -> bool:
        breaking.generate()
        return ground.why("opened")["conclusion"]["code"] == "open"

    eventually(opens, within=WITHIN)
    dying.kill()
    return ground


def until_there(ground: Ground, name: str) -> None:
    eventually(lambda: ground.people.get(f"instances/{name}")["registered"] == 1, within=WITHIN)


def explained(ground: Ground, name: str, key: str, code: str, *words: str) -> dict[str, Any]:
    """It comes to this alone, says it with these words, and says what to do."""
    said = ground.until(name, code)
    assert causes(said) == [(key, code)]
    end = said["conclusion"]
    assert end["key"] == key and end["next"]
    for word in words:
        assert word in end["sentence"], end["sentence"]
    asked = [answer["key"] for answer in said["answers"]]
    assert asked[0] == "directory" and said["sentences"], "the questions are in order, and the old sentences stay"
    return said


def test_a_port_that_is_taken(held: Ground):
    said = explained(held, "taken", "port", "taken", "another process listens there")
    assert "--own-port" in said["conclusion"]["next"]
    registered = next(answer for answer in said["answers"] if answer["key"] == "registered")
    assert (registered["verdict"], registered["follows"]) == ("no", "port")


def test_a_port_of_the_engine_itself_that_is_taken(held: Ground):
    """It goes on without its own bootstrap server, and decodes that a router sends there meet somebody else."""
    explained(held, "squatted", "port", "stranger", "not as a bootstrap server does")


def test_one_rank_that_never_registers(fallen: Ground):
    explained(fallen, "lonely", "registered", "never", "1 of 2 ranks", "nobody has registered as dp1 tp0")


def test_a_rank_with_another_page_size(fallen: Ground):
    explained(fallen, "paged", "registered", "refused", "page_size", "16", "64")


def test_a_port_that_is_stale(held: Ground):
    explained(held, "stale", "answering", "stale", "another program holds it")


def test_a_decode_that_goes_by_an_address_which_its_rank_has_left(roomy: Ground):
    """The other half of a stale port: the directory knows better, and the decode does not."""
    old = roomy.ranks.open()
    roomy.rank("moved", port=old)
    roomy.until("moved", "well")
    roomy.ranks.die(old)
    roomy.until("moved", "dead")
    new = roomy.rank("moved")
    roomy.until("moved", "well")
    with roomy.worker() as worker:
        worker.note(MOVED, "moved", "resolved")
        worker.note(MOVED, "moved", "connected", "unreachable", detail=f"127.0.0.1:{old} refuses")
    said = roomy.until_room(MOVED, "connected", "stale")
    end = said["conclusion"]
    assert f"had 127.0.0.1:{old} until" in end["sentence"] and f"at 127.0.0.1:{new} now" in end["sentence"]
    assert end["next"].startswith("The decode goes by what it learned before")


def test_a_rank_that_is_dead(fallen: Ground):
    explained(fallen, "dead", "registered", "dead", "dp0 tp0 at 127.0.0.1:", "is gone")


def test_a_rank_that_is_silent(fallen: Ground):
    explained(fallen, "silent", "answering", "silent", "accepts connections and says nothing")


def test_a_host_that_is_cut_off(fallen: Ground):
    explained(fallen, "partition", "answering", "partition", "127.0.0.7 cannot be reached")


def test_the_open_breaker_of_a_real_router(chosen: Ground):
    explained(chosen, "opened", "breaker", "open", "router breaking")


def test_a_proxy_that_is_down_while_the_engine_answers(chosen: Ground):
    said = explained(chosen, "fronted", "proxy", "proxy_down", "Router dying", "only the proxy fails")
    engine = next(answer for answer in said["answers"] if answer["key"] == "engine")
    assert engine["verdict"] == "yes" and engine["at"] is not None


def test_a_tenant_that_is_ambiguous(fallen: Ground):
    said = explained(fallen, "nameless", "tenant", "ambiguous", "PUT /route from 127.0.0.1 named no instance")
    assert "X-PD-Instance" in said["conclusion"]["next"]


def test_a_binding_that_has_expired(roomy: Ground):
    assert roomy.wire("roomy").bind(OVER, 0).status == 200
    said = roomy.until_room(OVER, "registered", "expired")
    assert said["conclusion"]["kind"] == "expired" and not said["live"]
    assert next(answer["next"] for answer in said["answers"] if answer["key"] == "registered")


def test_a_room_whose_metadata_is_of_another_one(roomy: Ground):
    failure = transferred_with_another_room(ROOM)
    with roomy.worker() as worker:
        for rung in ("resolved", "connected"):
            worker.note(ROOM, "roomy", rung)
        worker.note(ROOM, "roomy", "verified", *failure[:1], detail=failure[1])
    said = roomy.until_room(ROOM, "verified", "other_room")
    assert (
        said["conclusion"]["kind"] == "failed"
        and f"of room {ROOM + 1}, not of {ROOM}" in said["conclusion"]["sentence"]
    )
    assert "new room" in said["conclusion"]["next"]
    seen = {answer["key"]: answer["verdict"] for answer in said["answers"]}
    assert (seen["resolved"], seen["connected"], seen["consumed"]) == ("yes", "yes", "not_observed")


def test_beside_all_of_that_nothing_is_claimed_of_the_healthy(ground: Ground):
    said = ground.until("neighbour-0", "well")
    seen = {answer["key"]: answer["verdict"] for answer in said["answers"]}
    assert [key for key, verdict in seen.items() if verdict == "yes"] == [
        "directory",
        "port",
        "tenant",
        "registered",
        "answering",
        "wanted",
    ]
    assert {seen[key] for key in ("engine", "proxy", "router", "breaker", "policy", "health")} == {"not_observed"}
