"""Rooms whose binding is over are recognised for a while when they come back, in bounded memory; look-ups know nothing of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.rooms import MAX_ROOM, Collision, Reuse, Rooms

EDGES = [0, 1, 2**60 - 1, 2**60, 2**61 + 1, 2**62, MAX_ROOM]
TTL = 1000
KEPT = 500


def buried(rooms: Rooms) -> int:
    return sum(len(table.tombstones) for table in rooms.tables.values())


def bind(rooms: Rooms, room: int, dp: int, now: int, instance: int = 1):
    return rooms.bind(instance, room, dp, now + TTL, now)


def test_a_late_binding_and_a_number_used_twice_are_told_from_a_collision():
    rooms = Rooms(limit=100, remembered_ms=KEPT)
    for room in EDGES:
        assert bind(rooms, room, 3, 0) is None
    rooms.sweep(TTL)
    assert rooms.count == 0 and buried(rooms) == len(EDGES)
    for room in EDGES:
        assert bind(rooms, room, 3, TTL + 1) == Reuse(room, 3, 3, TTL, evicted=False)
        assert rooms.table(1).find(room, TTL + 2) == 3
        # It lives again: now another rank is a collision, and the same one is nothing.
        assert bind(rooms, room, 3, TTL + 2) is None
        assert bind(rooms, room, 4, TTL + 3) == Collision(room, 3, 4)
    assert bind(rooms, 77, 0, TTL + 4) is None, "nobody knows it"


def test_one_that_expired_and_was_not_swept_yet_is_recognised_too():
    rooms = Rooms(limit=100)
    bind(rooms, 7, 1, 0)
    assert bind(rooms, 7, 2, TTL) == Reuse(7, 1, 2, TTL, evicted=False)
    assert bind(rooms, 7, 2, TTL + 1) is None
    rooms.sweep(TTL + 2)
    assert rooms.table(1).find(7, TTL + 3) == 2


def test_one_that_had_to_go_before_its_time_is_recognised_as_evicted():
    rooms = Rooms(limit=2)
    for room in (1, 2, 3):
        bind(rooms, room, 0, room)
    assert rooms.keep_bound() == 1
    assert bind(rooms, 1, 5, 10) == Reuse(1, 0, 5, TTL + 1, evicted=True)


def test_instances_do_not_know_each_others_rooms():
    rooms = Rooms(limit=100)
    bind(rooms, 7, 0, 0, instance=1)
    rooms.sweep(TTL)
    assert bind(rooms, 7, 0, TTL + 1, instance=2) is None
    rooms.forget(1)
    assert bind(rooms, 7, 0, TTL + 1, instance=1) is None


def test_each_is_remembered_for_its_time_at_least_and_twice_that_at_most():
    rooms = Rooms(limit=10_000, remembered_ms=KEPT)
    rooms.sweep(TTL)
    for room in range(100):
        bind(rooms, room, 0, room)
        bind(rooms, 1000 + room, 0, room)
    for now in range(TTL, TTL + 3 * KEPT, 10):
        rooms.sweep(now)
        for room in range(100):
            ended = room + TTL
            known = room in known_rooms(rooms)
            if ended <= now < ended + KEPT:
                assert known, (room, now)
            if now > ended + 2 * KEPT + 20:
                assert not known, (room, now)
    for now in range(TTL + 3 * KEPT, TTL + 6 * KEPT, 50):
        rooms.sweep(now)
    assert buried(rooms) == 0


def known_rooms(rooms: Rooms) -> set[int]:
    stones = rooms.table(1).tombstones
    return {*stones._young, *stones._older}


def test_however_many_are_over_at_once_their_number_is_bounded():
    rooms = Rooms(limit=10**6, remembered=1000, remembered_ms=10**9)
    rooms.sweep(0)
    for room in range(20_000):
        bind(rooms, room, 0, 0, instance=room % 3)
    most = 0
    while rooms.count:
        rooms.sweep(TTL, limit=10)
        most = max(most, buried(rooms))
    # One look at the heads of all tables may come on top.
    assert 500 < most <= 1000 + 3 * 32 * 10
    # The newest are those that are remembered.
    assert sum(isinstance(bind(rooms, room, 0, TTL + 1, instance=room % 3), Reuse) for room in range(20_000)) > 500


def test_with_a_limit_of_nothing_nothing_is_remembered():
    rooms = Rooms(limit=10, remembered=0)
    for room in range(5):
        bind(rooms, room, 0, 0)
    rooms.sweep(TTL)
    rooms.sweep(TTL)
    for room in range(5, 10):
        bind(rooms, room, 0, TTL)
    rooms.sweep(2 * TTL)
    assert bind(rooms, 0, 0, 2 * TTL) is None


def test_what_a_restart_finds_in_the_journal_is_remembered_unless_it_was_bound_since():
    rooms = Rooms(limit=100, remembered=4)
    bind(rooms, 1, 9, 5000)
    # Newest first: of a room that was bound twice the last one counts.
    rooms.bury_older([(1, 1, 0, 4000), (1, 2, 5, 3900), (1, 2, 4, 3000), (1, 3, 0, 2000), (1, 4, 0, 1000)])
    assert bind(rooms, 1, 9, 5001) is None, "it lives"
    assert bind(rooms, 2, 7, 5001) == Reuse(2, 5, 7, 3900, evicted=False)
    assert bind(rooms, 4, 0, 5001) is None, "half of the bound was reached"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(EDGES[:5]), st.integers(0, 2), st.integers(0, 400)),
        max_size=40,
    )
)
def test_against_a_plain_memory_of_everything(steps):
    rooms, now = Rooms(limit=10**6, remembered=10**6, remembered_ms=10**9), 1
    rooms.sweep(0)
    last: dict[int, tuple[int, int]] = {}
    for room, dp, pause in steps:
        now += pause
        if pause % 3 == 0:
            rooms.sweep(now)
        before, until = last.get(room, (None, 0))
        found = bind(rooms, room, dp, now)
        if before is None or (until > now and before == dp):
            assert found is None
        elif until > now:
            assert found == Collision(room, before, dp)
        else:
            assert found == Reuse(room, before, dp, until, evicted=False)
        last[room] = dp, now + TTL
        assert rooms.table(1).find(room, now) == dp
