"""The journal of rooms followed for one drain: what lives, what came late, and nothing read twice."""

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.databases import TRAFFIC
from controlplane.domain.drain import Room, Rooms
from controlplane.models import RoomBinding
from controlplane.queries.journal import Position, follow, newest

NOW = 1_000_000.0
OURS, THEIRS = 7, 8


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def bind(room: int, dp: int, seconds: float, instance: int = OURS) -> None:
    RoomBinding.objects.using(TRAFFIC).create(
        instance_id=instance, room=room, dp=dp, expires_ms=round((NOW + seconds) * 1000)
    )


def look(before: Position, mark: int, *, group: int | None = None, now: float = NOW) -> Position:
    return follow(before, OURS, group, mark, newest(), now)


def test_what_was_bound_before_lives_until_the_last_of_it_expires_and_others_do_not_count():
    assert look(Position(), 0) == Position()
    bind(1, 0, 20), bind(2, 0, 5), bind(3, 1, -5), bind(4, 0, 900, THEIRS)
    mark = newest()
    at = look(Position(), mark)
    assert at == Position(mark, Rooms(until=NOW + 20))
    assert look(Position(), mark, group=1).rooms == Rooms()


def test_what_comes_after_the_mark_is_late_and_the_first_of_it_is_named_until_it_expires():
    bind(1, 0, 20)
    mark = newest()
    at = look(Position(), mark)
    bind(2**62, 1, 30), bind(6, 1, 40), bind(7, 0, 10, THEIRS)
    at = look(at, mark)
    assert at.rooms == Rooms(NOW + 20, Room(2**62, 1, NOW + 30), NOW + 40)
    assert look(Position(), mark, group=0).rooms.late is None
    bind(8, 1, 50)
    later = look(at, mark, now=NOW + 35)
    assert later.rooms == Rooms(NOW + 20, Room(8, 1, NOW + 50), NOW + 50)
    assert Position.read(later.data()) == later


def test_a_look_reads_only_what_came_since_the_last_one():
    for room in range(50):
        bind(room, 0, 20)
    mark = newest()
    at = look(Position(), mark)
    with CaptureQueriesContext(connections[TRAFFIC]) as captured:
        assert follow(at, OURS, None, mark, mark, NOW) == at
    assert len(captured) == 0
    bind(99, 0, 60)
    with CaptureQueriesContext(connections[TRAFFIC]) as captured:
        follow(at, OURS, None, mark, mark + 1, NOW)
    assert f"id > {mark}" in captured[0]["sql"]


def test_a_restored_journal_that_is_shorter_is_read_from_its_beginning():
    bind(1, 0, 20)
    mark = newest()
    at = Position(mark + 1000, Rooms(until=NOW - 1))
    bind(2, 1, 60)
    again = look(at, mark + 1000)
    # Which of them came late nobody can say any more; that they live is enough.
    assert again == Position(mark + 1, Rooms(until=NOW + 60))
