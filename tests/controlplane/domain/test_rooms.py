"""Room bindings: exact expiry, collisions, the bound; and all of it against a plain dictionary."""

from collections import OrderedDict

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.rooms import MAX_DP, MAX_ROOM, Collision, Reuse, Rooms, RoomTable

EDGES = [0, 1, 2**60 - 1, 2**60, 2**61 + 1, 2**62, MAX_ROOM - 1, MAX_ROOM]


def test_a_room_is_bound_until_exactly_its_expiry():
    table = RoomTable()
    table.bind(7, 3, expires_ms=1000, now_ms=0)
    assert table.find(7, 999) == 3
    assert table.find(7, 1000) is None
    assert table.count == 1
    assert table.sweep(1000, limit=10) == 1
    assert table.count == 0


def test_room_and_rank_zero_and_the_largest_of_both_are_valid():
    table = RoomTable()
    for room in EDGES:
        for dp in (0, MAX_DP):
            table.bind(room, dp, 1000, 0)
            assert table.find(room, 1) == dp
    assert table.count == len(EDGES)


def test_answers_come_in_the_order_asked_without_the_unknown():
    table = RoomTable()
    for room in (1, 2, 3):
        table.bind(room, room * 10, 1000 * room, 0)
    assert list(table.find_many([3, 9, 1, 2], 1000).items()) == [(3, 30), (2, 20)]


def test_the_last_write_wins_and_a_living_other_rank_is_a_collision():
    rooms = Rooms(limit=10)
    assert rooms.bind(1, 7, 0, 1000, 0) is None
    assert rooms.bind(1, 7, 0, 1100, 100) is None
    assert rooms.bind(1, 7, 2, 1200, 200) == Collision(7, before=0, after=2)
    assert rooms.table(1).find(7, 300) == 2
    assert rooms.bind(1, 7, 5, 3000, 1200) == Reuse(7, before=2, after=5, expires_ms=1200, evicted=False)
    assert rooms.bind(2, 7, 9, 3000, 1200) is None
    assert rooms.count == 2


def test_rebinding_moves_the_expiry():
    table = RoomTable()
    table.bind(7, 0, 1000, 0)
    table.bind(7, 0, 5000, 900)
    assert table.sweep(2000, limit=10) == 0
    assert (table.find(7, 4999), table.expiry_ms(7)) == (0, 5000)
    assert table.sweep(5000, limit=10) == 1


def test_past_the_bound_whoever_expires_first_goes_first_whichever_instance_it_is_of():
    rooms = Rooms(limit=3)
    for instance, room, expires in ((1, 1, 300), (2, 2, 100), (1, 3, 400), (2, 4, 200), (2, 5, 500)):
        rooms.bind(instance, room, 0, expires, 0)
    assert rooms.keep_bound() == 2
    kept = {room for table in rooms.tables.values() for room in (1, 2, 3, 4, 5) if table.find(room, 0) is not None}
    assert kept == {1, 3, 5}
    assert (rooms.count, rooms.evicted, rooms.keep_bound()) == (3, 2, 0)


def test_a_room_bound_again_does_not_hide_an_older_one_from_the_bound():
    table = RoomTable()
    again, older, elsewhere = 1, 2, 2**60
    table.bind(again, 0, 100, 0)
    table.bind(older, 0, 200, 0)
    table.bind(elsewhere, 0, 300, 0)
    table.bind(again, 0, 400, 0)
    table.evict_oldest()
    assert [table.find(room, 0) for room in (again, older, elsewhere)] == [0, None, 0]


def test_what_is_restored_never_overwrites_what_was_bound_meanwhile():
    table = RoomTable()
    table.bind(1, 5, 9000, 0)
    table.bind_older(1, 4, 8000)
    table.bind_older(2, 3, 7000)
    table.bind_older(3, 2, 6000)
    assert table.find_many([1, 2, 3], 0) == {1: 5, 2: 3, 3: 2}
    assert table.next_expiry_ms() == 6000
    assert (table.sweep(6000, 10), table.sweep(7000, 10), table.count) == (1, 1, 1)


def test_a_forgotten_instance_has_no_rooms():
    rooms = Rooms(limit=10)
    rooms.bind(1, 7, 0, 1000, 0)
    rooms.forget(1)
    assert rooms.count == 0
    assert rooms.table(1).find(7, 0) is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bind"), st.sampled_from(EDGES), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(0, 400), st.just(0)),
        st.tuples(st.just("sweep"), st.integers(1, 20), st.just(0)),
        st.tuples(st.just("evict"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_rooms_are_as_a_dictionary_would_have_them(steps):
    table, model, now = RoomTable(), OrderedDict(), 1_700_000_000_000
    for n, (what, number, dp) in enumerate(steps):
        if what == "bind":
            before = model.pop(number, None)
            model[number] = (dp, now + 1000)
            said = table.bind(number, dp, now + 1000, now)
            collided = before is not None and before[1] > now and before[0] != dp
            assert said == (before[0] if collided else None), n
        elif what == "wait":
            now += number
        elif what == "sweep":
            table.sweep(now, number)
        elif model and table.count:
            # What has expired may have been swept: then the oldest of the living goes.
            for room in [room for room, (_, expires) in model.items() if table.expiry_ms(room) is None]:
                del model[room]
            oldest = min(expires for _, expires in model.values())
            assert table.evict_oldest()
            (gone,) = [room for room in model if table.expiry_ms(room) is None]
            assert model.pop(gone)[1] == oldest
        living = {room: dp for room, (dp, expires) in model.items() if expires > now}
        assert table.find_many(EDGES, now) == living
    table.sweep(now + 1000, 10_000)
    assert table.count == 0
