"""Public reports: rooms, their edges and their end."""

import time

import pytest

from tests.cases.ranks import eventually
from tests.support.machine import slowness
from tests.wire.client import Client
from tests.wire.conftest import Server
from tests.wire.operators import rows

COLLISIONS = "SELECT room, before, after FROM controlplane_roomcollision"
REUSES = "SELECT room, before, after, over FROM controlplane_roomreuse ORDER BY id"


def dp4(client: Client) -> None:
    for k in range(4):
        assert client.put(attn_dp_size=4, attn_dp_rank=k, rank_port=41000 + k).status == 200


def test_ROOM_01_a_contradicting_registration_wins_is_counted_and_crashes_nobody(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv()
    dp4(client)
    assert client.bind(42, 0).status == 200
    time.sleep(0.05)
    assert client.bind(42, 1).status == 200
    assert client.find(42).json() == {"42": 1}
    # The same again contradicts nothing.
    assert client.bind(42, 1).status == 200
    assert client.bind(43, 1).status == 200
    time.sleep(0.1)
    eventually(lambda: rows(one.backend, COLLISIONS, file="traffic.sqlite3") == [(42, 0, 1)])


def test_ROOM_01_the_last_binding_is_there_after_a_restart(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv(keep=True)
    dp4(client)
    # Fast, so that some follow each other within a millisecond.
    for room in range(100):
        for dp in (0, 1, 2):
            assert client.bind(room, dp).status == 200
    one.process.restart()
    assert one.kv().find(*range(100)).json() == {str(room): 2 for room in range(100)}


def test_ROOM_01_a_collision_is_kept_even_when_no_other_room_follows(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv()
    dp4(client)
    for dp in (0, 1):
        assert client.bind(42, dp).status == 200
    eventually(lambda: rows(one.backend, COLLISIONS, file="traffic.sqlite3") == [(42, 0, 1)])


def test_ROOM_06_rooms_nobody_asks_for_are_bounded_and_normal_ones_are_still_answered(serve):
    one: Server = serve("a", PDCP_ROOM_LIMIT=1000, PDCP_PROBE_NETWORKS="none")
    orphans, normal = one.kv("a", keep=True), one.kv("a", keep=True)
    slowest = 0.0
    for n in range(3000):
        assert orphans.bind(10**12 + n, 0).status == 200
        if n % 100 == 0:
            assert normal.bind(n, 1).status == 200
            began = time.monotonic()
            assert normal.find(n).json() == {str(n): 1}
            slowest = max(slowest, time.monotonic() - began)
    assert slowest / slowness() < 1
    assert normal("GET", "/readyz").json()["rooms"] <= 1000
    # The oldest went first.
    assert normal.find(10**12, 10**12 + 2999).json() == {str(10**12 + 2999): 0}


def test_ROOM_06_an_expired_room_is_unknown_at_once_and_swept_soon_after(serve):
    one: Server = serve("a", PDCP_ROOM_TTL_SECONDS=1, PDCP_PROBE_NETWORKS="none")
    client = one.kv("a", keep=True)
    began = time.monotonic()
    assert client.bind(0, 0).status == 200
    bound = time.monotonic()
    for room in range(1, 200):
        assert client.bind(room, 0).status == 200
    # However long an answer takes: whoever asks after the room's second is told nothing.
    while (asked := time.monotonic()) and client.find(0).json():
        assert asked - bound < 1.1
        time.sleep(0.01)
    assert time.monotonic() - began > 0.95
    eventually(lambda: client("GET", "/readyz").json()["rooms"] == 0)
    one.process.restart()
    assert one.kv("a").find(*range(200)).json() == {}


def test_ROOM_07_a_room_used_again_resolves_to_its_second_rank(serve):
    one: Server = serve("a", PDCP_ROOM_TTL_SECONDS=3, PDCP_PROBE_NETWORKS="none")
    client = one.kv("a")
    assert client.bind(7, 0).status == 200
    time.sleep(3.1)
    assert client.find(7).json() == {}
    assert client.bind(7, 2).status == 200
    assert client.find(7).json() == {"7": 2}
    time.sleep(0.7)
    # The first use was over: the second contradicts nothing, and the sweep of the first does not take it away.
    assert client.find(7).json() == {"7": 2}
    assert rows(one.backend, COLLISIONS, file="traffic.sqlite3") == []
    # But that the number came back is known.
    eventually(lambda: rows(one.backend, REUSES, file="traffic.sqlite3") == [(7, 0, 2, "expired")])


def test_ROOM_07_a_binding_that_comes_late_is_recognised_also_after_a_restart_of_the_directory(serve):
    one: Server = serve("a", PDCP_ROOM_TTL_SECONDS=1, PDCP_PROBE_NETWORKS="none")
    client = one.kv("a", keep=True)
    for room in range(7, 507):
        assert client.bind(room, 1).status == 200
    eventually(lambda: client("GET", "/readyz").json()["rooms"] == 0)
    assert client.bind(7, 1).status == 200
    eventually(lambda: rows(one.backend, REUSES, file="traffic.sqlite3") == [(7, 1, 1, "expired")])
    one.process.restart()
    again = one.kv("a", keep=True)
    others = iter(range(8, 507))

    def recognised() -> bool:
        # It reads the last minutes back beside its work; another number each time, for a living one tells nothing.
        room = next(others)
        assert again.bind(room, 3).status == 200
        assert again.find(room).json() in ({str(room): 3}, {}), "the last word counts, late or not"
        return any(row[1:] == (1, 3, "expired") for row in rows(one.backend, REUSES, file="traffic.sqlite3"))

    eventually(recognised)


def test_ROOM_06_a_room_that_had_to_go_is_recognised_when_it_comes_back_and_no_more_of_them_than_the_limit(serve):
    one: Server = serve("a", PDCP_ROOM_LIMIT=50, PDCP_ROOM_TOMBSTONE_LIMIT=100, PDCP_PROBE_NETWORKS="none")
    client = one.kv("a", keep=True)
    for room in range(500):
        assert client.bind(room, 0).status == 200
    # The oldest were forgotten, those that went last are known.
    for room in (0, 440):
        assert client.bind(room, 2).status == 200
    eventually(lambda: rows(one.backend, REUSES, file="traffic.sqlite3") == [(440, 0, 2, "evicted")])


def test_ROOM_11_numbers_beyond_the_database_are_not_found_and_zero_is_a_room(server: Server, tenant):
    client = server.kv(tenant)
    dp4(client)
    for room, dp in ((7, 1), (8, 2), (0, 0)):
        assert client.bind(room, dp).status == 200
    found = client.find(7, "8", 0, -1, 18446744073709551616, 99999999999999999999999999)
    assert (found.status, found.json()) == (200, {"7": 1, "8": 2, "0": 0})
    empty = client.find()
    assert (empty.status, empty.text) == (200, "{}")


@pytest.mark.parametrize("room", [None, "abc", 1.5, True, ...], ids=str)
def test_ROOM_11_a_malformed_room_is_400_and_makes_no_row(server: Server, room):
    before = rows(server.backend, "SELECT count(*) FROM controlplane_roombinding", file="traffic.sqlite3")
    body = {"dp_rank": 0} if room is ... else {"bootstrap_room": room, "dp_rank": 0}
    answer = server.kv("malformed-rooms")("POST", "/register_dp_rank", js=body)
    assert answer.status == 400 and "bootstrap_room" in answer.text
    assert server.kv("malformed-rooms").bind(5, -1).status == 400
    assert rows(server.backend, "SELECT count(*) FROM controlplane_roombinding", file="traffic.sqlite3") == before
    assert server.kv()("GET", "/livez").status == 200
