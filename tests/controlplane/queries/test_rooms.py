"""Finding a room in the journal: the last row counts, per instance."""

import pytest

from controlplane.databases import TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.models import RoomBinding, RoomCollision
from controlplane.queries.rooms import CollisionRow, collisions, find_room, live_rooms
from tests.controlplane.queries.world import World

NOW = 1000.0
ROOM = 2**62 + 1


def bind(instance: int, dp: int, expires: float, room: int = ROOM) -> None:
    RoomBinding.objects.using(TRAFFIC).create(instance_id=instance, room=room, dp=dp, expires_ms=round(expires * 1000))


def test_the_last_binding_counts_and_the_living_come_first(on_backend):
    a, b = World("a").row.pk, World("b").row.pk
    bind(a, 0, NOW - 1)
    bind(b, 3, NOW + 10)
    bind(b, 2, NOW + 20)
    bind(b, 5, NOW + 20, room=7)
    RoomCollision.objects.using(TRAFFIC).create(instance_id=b, room=ROOM, before=3, after=2, at=NOW - 5)
    living, expired = find_room(ROOM, now=NOW)
    assert (living.instance, living.dp, living.expires_at, living.live) == ("b", 2, NOW + 20, True)
    assert living.collisions == (CollisionRow(3, 2, NOW - 5),)
    assert (expired.instance, expired.dp, expired.live, expired.collisions) == ("a", 0, False, ())
    assert find_room(8, now=NOW) == ()


def test_a_binding_of_an_instance_that_is_not_known_is_still_shown(on_backend):
    bind(99, 0, NOW + 1)
    assert find_room(ROOM, now=NOW)[0].instance == "instance 99"


@pytest.mark.parametrize("room", [-1, 2**63])
def test_a_number_that_is_no_room_is_refused(room):
    with pytest.raises(Refused, match="a room is between"):
        find_room(room, now=NOW)


def test_living_rooms_of_an_instance_come_newest_first_in_pages(on_backend):
    a, b = World("a").row.pk, World("b").row.pk
    for room in range(7):
        bind(a, room % 2, NOW + 10, room=room)
        bind(b, 0, NOW + 10, room=room)
    bind(a, 0, NOW - 1, room=50)
    seen, after, pages = [], "", 0
    while True:
        page = live_rooms("a", now=NOW, after=after, limit=3)
        seen += [row.room for row in page.rows]
        after, pages = page.next, pages + 1
        if not after:
            break
    assert (seen, pages) == ([6, 5, 4, 3, 2, 1, 0], 3)
    assert page.rows[0].instance == "a" and page.rows[0].expires_at == NOW + 10


def test_a_room_that_was_bound_again_is_listed_once_with_its_last_rank(on_backend):
    a = World("a").row.pk
    bind(a, 0, NOW + 10, room=1)
    bind(a, 0, NOW + 10, room=2)
    bind(a, 1, NOW + 20, room=1)
    assert [(row.room, row.dp) for row in live_rooms("a", now=NOW).rows] == [(1, 1), (2, 0)]
    first = live_rooms("a", now=NOW, limit=2)
    assert [row.room for row in first.rows] == [1, 2]
    assert live_rooms("a", now=NOW, limit=2, after=first.next).rows == ()
    # A later binding that has expired hides an earlier one that has not.
    bind(a, 1, NOW - 5, room=2)
    assert [row.room for row in live_rooms("a", now=NOW).rows] == [1]


def test_collisions_are_listed_by_instance_and_room(on_backend):
    a, b = World("a").row.pk, World("b").row.pk
    for number in range(5):
        RoomCollision.objects.using(TRAFFIC).create(
            instance_id=a if number % 2 else b, room=number, before=0, after=1, at=NOW + number
        )
    assert [(row.instance, row.room) for row in collisions(limit=3).rows] == [("b", 4), ("a", 3), ("b", 2)]
    older = collisions(limit=3, after=collisions(limit=3).next)
    assert [(row.room, row.before, row.after, row.at) for row in older.rows] == [(1, 0, 1, NOW + 1), (0, 0, 1, NOW)]
    assert older.next == ""
    assert [row.room for row in collisions(instance="a").rows] == [3, 1]
    assert [row.instance for row in collisions(room=2).rows] == ["b"]


def test_what_cannot_be_asked_is_refused(on_backend):
    World("a")
    for wrong in ({"after": "x"}, {"after": "-1"}, {"limit": 0}, {"limit": 9999}):
        for ask in (lambda how: live_rooms("a", now=NOW, **how), lambda how: collisions(**how)):
            with pytest.raises(Refused) as refused:
                ask(wrong)
            assert refused.value.code == "malformed"
    with pytest.raises(Refused, match="no instance is named ghost"):
        live_rooms("ghost", now=NOW)
    with pytest.raises(Refused, match="no instance is named ghost"):
        collisions(instance="ghost")
