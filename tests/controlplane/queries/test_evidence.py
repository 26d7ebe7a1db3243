"""All that the tables know of one room, and where the rooms of each prefill go."""

from dataclasses import replace

import pytest

from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.domain.evidence import Displaced
from controlplane.domain.topology import Topology
from controlplane.models import Instance, OpenRooms, Rank, RoomBinding, RoomCollision
from controlplane.queries import evidence, memo, room_ways
from controlplane.queries.fleet import snapshot
from tests.controlplane.queries import world
from tests.controlplane.queries.world import World

ROOM = 2**62 + 1
TWO_GROUPS = Topology(2, 1, 2, 1)


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    memo.forget()
    return on_backend


def bind(instance: int, dp: int, expires: float, room: int = ROOM) -> None:
    RoomBinding.objects.using(TRAFFIC).create(instance_id=instance, room=room, dp=dp, expires_ms=round(expires * 1000))


def serving(name: str, monkeypatch, *, follows: bool = True) -> World:
    facts = replace(world.FACTS_OF_ALL, load_balance_method="follow_bootstrap_room" if follows else "round_robin")
    monkeypatch.setattr(world, "FACTS_OF_ALL", facts)
    made = World(name)
    made.launch(TWO_GROUPS, first_port=4000)
    return made


def read(now: float) -> evidence.RoomEvidence:
    memo.forget()
    with snapshot():
        return evidence.evidence(ROOM, now=now)


def test_who_holds_a_room_is_shown_with_the_ranks_of_that_group_alone(monkeypatch):
    a = serving("a", monkeypatch, follows=False)
    bind(a.row.pk, 1, a.now + 100)
    found = read(a.now)
    (holder,) = found.holders
    assert (holder.name, holder.dp, holder.live, holder.registered, holder.expected) == ("a", 1, True, 2, 2)
    assert [(seat.within, seat.contact) for seat in holder.seats] == [("tp0", "up"), ("tp1", "up")]
    assert found.live and found.ladder.conclusion.kind == "stops"
    (row,) = found.bindings
    # 360 s is the time to live as it is set.
    assert (row.live, row.overtaken, round(row.bound_at - a.now)) == (True, False, -260)


def test_the_last_binding_of_an_instance_counts_and_the_others_are_listed(monkeypatch):
    a = serving("a", monkeypatch, follows=False)
    bind(a.row.pk, 0, a.now + 100)
    bind(a.row.pk, 1, a.now + 200)
    RoomCollision.objects.using(TRAFFIC).create(instance_id=a.row.pk, room=ROOM, before=0, after=1, at=a.now - 9)
    found = read(a.now)
    assert [(row.dp, row.live, row.overtaken) for row in found.bindings] == [(1, True, False), (0, False, True)]
    assert found.collisions == (("a", Displaced(0, 1, a.now - 9)),)
    assert "while its binding to dp0 was alive" in found.ladder.conclusion.sentence


def test_what_an_earlier_request_of_the_same_number_met_is_listed_and_casts_no_doubt_on_this_one(monkeypatch):
    a = serving("a", monkeypatch, follows=False)
    bind(a.row.pk, 1, a.now + 300)
    RoomCollision.objects.using(TRAFFIC).create(instance_id=a.row.pk, room=ROOM, before=0, after=1, at=a.now - 86_400)
    found = read(a.now)
    assert len(found.collisions) == 1 and found.ladder.conclusion.kind == "stops"


def test_a_room_in_two_instances_is_in_doubt_and_the_living_one_comes_first(monkeypatch):
    a, b = serving("a", monkeypatch, follows=False), World("b")
    bind(b.row.pk, 0, a.now + 50)
    bind(a.row.pk, 1, a.now + 20)
    assert "bound in 2 instances" in read(a.now).ladder.conclusion.sentence
    assert [holder.name for holder in read(a.now + 30).holders] == ["b", "a"]
    assert "b dp0 holds it, and look-ups are not answered" in read(a.now + 30).ladder.conclusion.sentence.replace(
        "B", "b"
    )


def test_a_room_of_an_instance_that_is_gone_is_still_told_of(monkeypatch):
    a = serving("a", monkeypatch)
    bind(99, 0, a.now + 50)
    found = read(a.now)
    assert found.holders[0].row is None and found.holders[0].name == "instance 99"
    assert "not known here any more" in found.ladder.conclusion.sentence


def test_what_was_never_bound_is_computed_by_those_who_follow(monkeypatch):
    a = serving("a", monkeypatch)
    serving("b", monkeypatch, follows=False)
    found = read(a.now)
    assert (found.followers, found.holders, found.live) == (1, (), False)
    assert [claim.sentence for claim in found.ladder.rungs[1].claims] == [
        "a decode of a computes room mod 2 = 1 and asks nobody"
    ]


def test_the_list_of_bindings_is_bounded_and_says_so(monkeypatch):
    a = serving("a", monkeypatch)
    for _ in range(evidence.BINDINGS + 1):
        bind(a.row.pk, 0, a.now + 10)
    found = read(a.now)
    assert len(found.bindings) == evidence.BINDINGS and found.more


@pytest.mark.parametrize("text", ["", "-1", "x", "9" * 20, str(2**63), "1.5", "٣"])
def test_a_number_that_is_no_room_is_refused(text):
    with pytest.raises(Refused, match="a room is a whole number"):
        evidence.read_room(text)


def ways(now: float, **how) -> room_ways.WayPage:
    memo.forget()
    with snapshot():
        return room_ways.ways(now=now, **how)


def test_each_prefill_says_how_its_rooms_find_their_group_and_who_counts_them(monkeypatch):
    a, b = serving("a", monkeypatch), serving("b", monkeypatch, follows=False)
    World("c")
    for kind, source, group, rooms, at in (
        ("gateway", "g1", 0, 3, a.now - 1),
        ("gateway", "g1", 1, 4, a.now - 3),
        ("gateway", "g2", -1, 5, a.now - 2),
        # Of the whole and of its groups: told twice, and counted once.
        ("gateway", "g2", 0, 4, a.now - 1),
        ("worker", "w", 0, 2, a.now - 8),
    ):
        OpenRooms.objects.using(FACTS).create(
            kind=kind, source=source, instance="a", group=group, open_rooms=rooms, taken_at=at, received_at=at
        )
    RoomCollision.objects.using(TRAFFIC).create(instance_id=b.row.pk, room=1, before=0, after=1, at=a.now - 5)
    RoomCollision.objects.using(TRAFFIC).create(instance_id=b.row.pk, room=2, before=0, after=1, at=a.now - 7200)
    found = ways(a.now)
    assert [(way.row.name, way.follows, way.collided) for way in found.rows] == [
        ("a", True, 0), ("b", False, 1), ("c", None, 0),
    ]  # fmt: skip
    assert [(one.kind, one.rooms, one.sources, one.taken_at) for one in found.rows[0].open] == [
        ("gateway", 12, 2, a.now - 3), ("worker", 2, 1, a.now - 8),
    ]  # fmt: skip


def test_prefills_are_paged_by_name_and_decodes_and_the_retired_are_left_out():
    now = World("p1").now
    for name in ("p2", "p3"):
        World(name)
    Instance.objects.using(FACTS).create(name="d", role="decode", created_at=now)
    Instance.objects.using(FACTS).create(name="p0", role="prefill", intent="retired", created_at=now)
    first = ways(now, limit=2)
    assert ([way.row.name for way in first.rows], first.next, first.total) == (["p1", "p2"], "p2", 3)
    assert [way.row.name for way in ways(now, limit=2, after=first.next).rows] == ["p3"]
    assert [way.row.name for way in ways(now, text="P3").rows] == ["p3"]
    assert ways(now, text="nobody").rows == ()


def test_ranks_of_the_group_that_are_gone_or_silent_are_named_with_since_when(monkeypatch):
    a = serving("a", monkeypatch, follows=False)
    bind(a.row.pk, 1, a.now + 100)
    seats = Rank.objects.using(FACTS).filter(instance_id=a.row.pk, dp=1)
    seats.filter(tp=0).update(contact="silent")
    said = read(a.now).ladder.conclusion
    assert (
        said.kind == "trouble" and "dp1 tp0 at 10.0.0.1:4002 accepts connections, but does not greet" in said.sentence
    )
    seats.filter(tp=1).update(left_at=a.now - 5, left_reason="it refuses connections")
    claims = [claim.sentence for claim in read(a.now).ladder.rungs[0].claims]
    assert any("dp1 tp1 at 10.0.0.1:4003 is gone since" in one and "it refuses connections" in one for one in claims)
