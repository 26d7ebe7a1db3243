"""kill -9 at any moment loses nothing that was acknowledged, and leaves nothing half written."""

import asyncio
from collections.abc import Callable

import pytest

from tests.crash.rounds import storm_and_kill
from tests.crash.wire import Client, route_body
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap

ROUNDS = 3


@pytest.mark.parametrize("listening", [False, True], ids=["nobody-behind", "listening"])
def test_what_was_acknowledged_survives_kill_9(
    backend: Backend, make_bootstrap: Callable[..., Bootstrap], listening: bool
):
    storm_and_kill(make_bootstrap(backend), backend, rounds=ROUNDS, seed=20, listening=listening)


def test_a_room_that_two_clients_bound_at_once_keeps_its_rank(bootstrap: Bootstrap):
    """Two bindings of one batch expire in the same millisecond; the last one counted, and still does."""
    rooms = list(range(60))

    async def bind_twice() -> dict[str, int]:
        async with Client(bootstrap.kv_port) as client:
            body = route_body(dp=8, ip="203.0.113.1", port=5000)
            assert (await client.ask("PUT", "/route", body)).status == 200

            async def bind(room: int, dp: int) -> None:
                async with Client(bootstrap.kv_port) as own:
                    answer = await own.ask("POST", "/register_dp_rank", {"bootstrap_room": room, "dp_rank": dp})
                    assert answer.status == 200

            await asyncio.gather(*(bind(room, dp) for room in rooms for dp in (1, 2, 3)))
        return await find_rooms(bootstrap, rooms)

    before = asyncio.run(bind_twice())
    assert len(before) == len(rooms)
    bootstrap.restart()
    assert asyncio.run(find_rooms(bootstrap, rooms)) == before


def test_rooms_within_the_limit_survive_however_often_one_of_them_was_bound(
    backend: Backend, make_bootstrap: Callable[..., Bootstrap]
):
    bootstrap = make_bootstrap(backend, PDCP_ROOM_LIMIT=200).start()
    rooms = list(range(100))

    async def bind() -> None:
        async with Client(bootstrap.kv_port) as client:
            for room in [*rooms, *[7] * 300]:
                answer = await client.ask("POST", "/register_dp_rank", {"bootstrap_room": room, "dp_rank": 0})
                assert answer.status == 200

    asyncio.run(bind())
    bootstrap.restart()
    assert asyncio.run(find_rooms(bootstrap, rooms)) == {str(room): 0 for room in rooms}


async def find_rooms(bootstrap: Bootstrap, rooms: list[int]) -> dict[str, int]:
    async with Client(bootstrap.kv_port) as client:
        return (await client.ask("POST", "/query_dp_ranks", {"bootstrap_rooms": rooms})).json()
