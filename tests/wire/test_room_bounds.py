"""Rooms without end: exact lives, the oldest first, collisions counted, and so many bytes each."""

import itertools
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.rooms import Collision, Rooms
from controlplane.domain.tombstones import Reuse
from tests.support.processes import ROOT
from tests.wire.conftest import Server

TTL = 360_000
NOW = 1_800_000_000_000
MANY = 1_000_000
BYTES_PER_ROOM = 120


# In a process of its own, whose memory nobody else has shaped. Random 63-bit rooms, as routers draw them; all that
# is kept counts: keys, order, the allocator's rounding.
MEASURE = f"""
import random
from pathlib import Path
from controlplane.domain.rooms import Rooms

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

chance = random.Random(63)
rooms = Rooms(limit=2 * {MANY})
before = resident()
for n in range({MANY}):
    rooms.bind(1, chance.getrandbits(63), n % 8, {NOW + TTL} + n // 3, {NOW} + n // 3)
assert rooms.count == {MANY}
print((resident() - before) / {MANY})
"""


def test_a_million_rooms_cost_at_most_120_bytes_each():
    measured = subprocess.run([sys.executable, "-c", MEASURE], cwd=ROOT, check=True, capture_output=True, text=True)
    assert float(measured.stdout) <= BYTES_PER_ROOM


def test_a_room_lives_until_exactly_its_expiry_before_any_sweep():
    rooms = Rooms(limit=10)
    rooms.bind(1, 7, 3, NOW + TTL, NOW)
    table = rooms.table(1)
    assert table.find(7, NOW + TTL - 1) == 3
    assert table.find(7, NOW + TTL) is None
    assert table.find_many([7], NOW + TTL) == {}
    assert rooms.count == 1, "not swept yet"
    assert rooms.sweep(NOW + TTL) == 1
    assert rooms.count == 0


def test_a_room_bound_again_lives_from_then_on():
    rooms = Rooms(limit=10)
    rooms.bind(1, 7, 3, NOW + TTL, NOW)
    rooms.bind(1, 7, 3, NOW + 1000 + TTL, NOW + 1000)
    assert rooms.sweep(NOW + TTL) == 0
    assert rooms.table(1).find(7, NOW + TTL) == 3
    assert rooms.table(1).find(7, NOW + 1000 + TTL) is None


def test_past_the_limit_the_oldest_expiring_go_first_whoevers_they_are():
    rooms = Rooms(limit=100)
    for n in range(150):
        rooms.bind(n % 3, n, 0, NOW + TTL + n, NOW + n)
    assert rooms.keep_bound() == 50
    assert (rooms.count, rooms.evicted) == (100, 50)
    for n in range(150):
        assert rooms.table(n % 3).find(n, NOW + 150) == (0 if n >= 50 else None)


def test_a_room_bound_again_is_no_longer_among_the_oldest():
    rooms = Rooms(limit=3)
    for n, room in enumerate((1, 2, 3, 1, 4)):
        rooms.bind(1, room, 0, NOW + TTL + n, NOW + n)
    rooms.keep_bound()
    assert {room for room in range(1, 5) if rooms.table(1).find(room, NOW + 5) is not None} == {1, 3, 4}


def test_a_collision_is_a_living_room_bound_to_another_rank():
    rooms = Rooms(limit=10)
    assert rooms.bind(1, 7, 0, NOW + TTL, NOW) is None
    assert rooms.bind(1, 7, 0, NOW + TTL + 1, NOW + 1) is None, "the same again is none"
    assert rooms.bind(1, 7, 2, NOW + TTL + 2, NOW + 2) == Collision(room=7, before=0, after=2)
    assert rooms.table(1).find(7, NOW + 3) == 2, "the last write wins"
    late = NOW + TTL + 2
    again = rooms.bind(1, 7, 5, late + TTL, late)
    assert isinstance(again, Reuse), "the first binding was over: its room came back, and nobody lives there"
    assert rooms.bind(2, 7, 1, NOW + TTL, NOW) is None, "another instance's room is another room"


@settings(deadline=None, database=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 2**60, 2**63 - 1]), st.integers(0, 3), st.integers(1, 50)), max_size=60
    ),
    st.integers(1, 6),
)
def test_the_tables_do_what_a_plain_dictionary_would(steps, limit):
    """Against the obvious model: bindings of one time to live, swept and bounded at any moment."""
    rooms = Rooms(limit=limit)
    model: dict[int, tuple[int, int]] = {}
    now = NOW
    for (room, dp, wait), _ in zip(steps, itertools.count(), strict=False):
        now += wait
        known = model.get(room)
        collided = known is not None and known[1] > now and known[0] != dp
        assert isinstance(rooms.bind(1, room, dp, now + 100, now), Collision) == collided
        model.pop(room, None)
        model[room] = (dp, now + 100)
        if wait % 3 == 0:
            rooms.sweep(now)
            model = {r: (d, e) for r, (d, e) in model.items() if e > now}
        rooms.keep_bound()
        while len(model) > limit:
            del model[next(iter(model))]
        for each in (0, 1, 2, 2**60, 2**63 - 1):
            alive = model.get(each)
            expected = alive[0] if alive is not None and alive[1] > now else None
            assert rooms.table(1).find(each, now) == expected
    assert rooms.count == len(model)


# --- Through the wire ----------------------------------------------------------------------------------------


def test_the_server_keeps_its_bound_and_the_newest(serve):
    one: Server = serve("a", PDCP_ROOM_LIMIT=500, PDCP_PROBE_NETWORKS="none")
    client = one.kv("a", keep=True)
    for room in range(1200):
        assert client.bind(room, room % 7).status == 200
    assert client("GET", "/readyz").json()["rooms"] <= 500
    found = client.find(*range(1200)).json()
    assert found == {str(room): room % 7 for room in range(700, 1200)}


def test_the_bound_holds_after_a_restart(serve):
    one: Server = serve("a", PDCP_ROOM_LIMIT=100, PDCP_PROBE_NETWORKS="none")
    client = one.kv("a")
    for room in range(150):
        assert client.bind(room, 1).status == 200
    one.process.restart()
    assert client.find(*range(150)).json() == {str(room): 1 for room in range(50, 150)}
