"""Finding a room in the journal: the last row counts, per instance."""

import pytest

from controlplane.databases import TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.models import RoomBinding, RoomCollision
from controlplane.queries.rooms import CollisionRow, find_room
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
