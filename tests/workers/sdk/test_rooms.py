"""Rooms are bound, and found in batches: one query in flight for an address, over one connection."""

import asyncio

import pytest

from tests.support.machine import slowness
from tests.workers.sdk.directory import Directory
from tests.workers.sdk.server import HANG, Said, say
from tests.workers.sdk.waiting import soon
from workers.sdk.errors import Garbled, NotReady, Overloaded, Refusal, TimedOut, Unreachable, WorkerError
from workers.sdk.rooms import MOST_WAITING, Rooms
from workers.sdk.servers import ControlPlane
from workers.sdk.wire import Wire

GENEROUS = 20.0


@pytest.fixture
def directory() -> Directory:
    return Directory()


@pytest.fixture
async def rooms(serve, directory):
    server = serve(directory.answer)
    wire = Wire()
    made = Rooms(wire, ControlPlane(server.place, server.place, instance="prefill-a", token="secret"), interval=0.02)
    made.server = server
    yield made
    made.close()
    await wire.aclose()


async def test_what_was_bound_is_found_and_what_was_not_is_left_out(rooms):
    await rooms.bind(2**63 - 1, 3)
    await rooms.bind(0, 0)
    assert await rooms.look([2**63 - 1, 5, 0]) == {2**63 - 1: 3, 0: 0}
    assert rooms.server.heard[0].json() == {"bootstrap_room": 2**63 - 1, "dp_rank": 3}
    sent = rooms.server.heard[0].headers
    assert (sent["x-pd-instance"], sent["x-pd-token"]) == ("prefill-a", "secret")


async def test_numbers_that_are_none_are_left_out_of_whatever_a_server_tells(serve):
    strange = {"7": 1, "²": 2, "٣": 3, "9" * 5000: 4, "-1": 5, " 8": 6}
    server = serve(lambda heard: say(strange))
    wire = Wire()
    assert await Rooms(wire, ControlPlane(server.place, server.place)).look([7, 2, 3, 8]) == {7: 1}
    await wire.aclose()


async def test_whoever_waits_hears_of_a_room_when_it_is_bound(rooms, directory):
    waiting = asyncio.create_task(rooms.find([11, 12], within=GENEROUS))
    await soon(lambda: rooms.queries >= 2)
    assert not waiting.done()
    directory.rooms[11] = 1
    directory.rooms[12] = 2
    assert await waiting == {11: 1, 12: 2}
    assert rooms.server.connections == 1


async def test_what_is_not_bound_in_time_is_left_out_and_no_longer_asked_for(rooms, directory):
    directory.rooms[1] = 0
    assert await rooms.find([1, 2], within=0.5 * slowness()) == {1: 0}
    await soon(lambda: rooms._asking.done())
    before = rooms.queries
    await asyncio.sleep(0.2)
    assert rooms.queries == before
    assert await rooms.find([], within=1) == {}


async def test_a_hundred_who_wait_share_one_query_at_a_time(rooms, directory):
    directory.before = lambda heard: None
    tasks = [asyncio.create_task(rooms.find([n, n + 1], within=GENEROUS)) for n in range(100)]
    await soon(lambda: rooms.queries >= 2)
    directory.rooms.update({n: n % 4 for n in range(101)})
    answers = await asyncio.gather(*tasks)
    assert answers == [{n: n % 4, n + 1: (n + 1) % 4} for n in range(100)]
    assert rooms.server.most_at_once == 1 and rooms.server.connections == 1
    assert rooms.queries < 20


async def test_queries_keep_their_distance(rooms):
    await rooms.find([1], within=0.5)
    assert rooms.queries <= 0.5 / 0.02 + 2


async def test_a_server_that_is_away_is_said_and_one_that_comes_back_is_asked_again(rooms, directory):
    directory.before = lambda heard: Said(503, b"not now")
    with pytest.raises(NotReady, match="not now"):
        await rooms.find([1], within=0.5 * slowness())
    directory.before = lambda heard: None
    directory.rooms[1] = 7
    assert await rooms.find([1], within=GENEROUS) == {1: 7}


async def test_a_query_that_hangs_ends_with_who_waits(rooms, directory):
    directory.before = lambda heard: HANG
    assert await rooms.find([1], within=0.2) == {}
    with pytest.raises((TimedOut, Unreachable)):
        await rooms.look([1], within=0.2)


async def test_an_answer_about_other_rooms_is_not_believed(rooms, directory):
    directory.before = lambda heard: say({"2": 5, "x": 1, "1": 70000})
    assert await rooms.look([1]) == {}
    directory.before = lambda heard: say([1])
    with pytest.raises(Garbled):
        await rooms.look([1])
    directory.before = lambda heard: Said(400, b"dp_rank 9 does not exist")
    with pytest.raises(Refusal, match="400: dp_rank 9 does not exist"):
        await rooms.bind(1, 9)


@pytest.mark.parametrize("room", [-1, 2**63, True, "7", 1.0, None])
async def test_what_is_no_room_is_refused_before_anybody_is_asked(rooms, room):
    for ask in (rooms.bind(room, 0), rooms.look([room]), rooms.find([room], within=1)):
        with pytest.raises(WorkerError, match="a room is an integer"):
            await ask
    assert rooms.server.heard == []


async def test_those_who_wait_are_bounded(rooms):
    with pytest.raises(Overloaded):
        await rooms.find(range(MOST_WAITING + 1), within=1)
