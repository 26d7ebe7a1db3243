"""A decode that goes by an address which its rank has left is told so, and only that one."""

import doctest
import time

import pytest

from controlplane.domain.claims import Said
from controlplane.domain.topology import Topology
from controlplane.models import RoomReport
from controlplane.queries import left_addresses, memo
from controlplane.queries.evidence import evidence
from controlplane.queries.fleet import snapshot
from tests.controlplane.queries.world import World

ROOM = 9
TP2 = Topology(1, 1, 2, 1)


@pytest.fixture
def world(on_backend) -> World:
    made = World(ago=20)
    made.launch(TP2, first_port=4000)
    return made


def failed(detail: str, result: str = "unreachable", rung: str = "connected") -> Said:
    return Said(rung, result, "d/1", "prefill-a", time.time(), detail)


def stale(world: World, *said: Said) -> list[str]:
    return [one.stale for one in left_addresses.marked(said, {"prefill-a": world.row.pk})]


def test_doctest():
    assert doctest.testmod(left_addresses).failed == 0


def test_an_address_that_its_rank_has_left_is_told_with_the_one_it_has_now(world):
    world.launch(TP2, first_port=6000, token="two")
    world.refuse(4000, 4001)
    (said,) = stale(world, failed("10.0.0.1:4001 refuses"))
    assert said.startswith("dp0 tp1 had 10.0.0.1:4001 until ") and said.endswith("at 10.0.0.1:6001 now")


def test_an_address_that_is_right_or_unknown_or_of_nobody_is_not(world):
    world.launch(TP2, first_port=6000, token="two")
    world.refuse(4000, 4001)
    assert (
        stale(world, failed("10.0.0.1:6000 refuses"), failed("10.0.0.1:7777 refuses"), failed("no memory")) == [""] * 3
    )
    assert stale(world, failed("10.0.0.1:4000", rung="verified"), failed("10.0.0.1:4000", "passed")) == ["", ""]
    assert left_addresses.marked([failed("10.0.0.1:4000")], {})[0].stale == ""


def test_the_room_comes_to_that_and_says_what_to_do(world):
    world.launch(TP2, first_port=6000, token="two")
    world.refuse(4000, 4001)
    world.end_flush()
    now = time.time()
    RoomReport.objects.create(
        room=ROOM,
        instance="prefill-a",
        source="d/1",
        rung="connected",
        result="unreachable",
        detail="10.0.0.1:4000 refuses",
        at=now,
        received_at=now,
    )
    memo.forget()
    with snapshot():
        found = evidence(ROOM, now=now)
    end = found.ladder.conclusion
    assert end.kind == "failed" and "Dp0 tp0 had 10.0.0.1:4000 until" in end.sentence
    assert end.next.startswith("The decode goes by what it learned before")
    assert [(a.key, a.code) for a in found.answers if a.is_cause] == [("connected", "stale")]
