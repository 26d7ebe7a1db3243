"""kill -9 at any moment loses nothing that was acknowledged, and leaves nothing half written."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.crash.audit import audit
from tests.crash.storm import Storm
from tests.crash.wire import Client, route_body
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap

ROUNDS = 3


@pytest.mark.parametrize("listening", [False, True], ids=["nobody-behind", "listening"])
def test_what_was_acknowledged_survives_kill_9(
    backend: Backend, make_bootstrap: Callable[..., Bootstrap], listening: bool
):
    storm_and_kill(make_bootstrap(backend), backend, rounds=ROUNDS, seed=20, listening=listening)


def storm_and_kill(
    bootstrap: Bootstrap, backend: Backend, *, rounds: int, seed: int, listening: bool = False
) -> tuple[Storm, list[float]]:
    """Rounds of storm, kill -9, restart and audit on one database. The storm with its books, and seconds to restart."""
    storm = Storm(bootstrap.kv_port, bootstrap.engine_port, seed=seed, listening=listening)
    restarts = []
    try:
        bootstrap.start()
        for round_ in range(1, rounds + 1):
            asyncio.run(storm.blow(storm.random.uniform(0.2, 1.0), bootstrap.kill9))
            began = time.monotonic()
            bootstrap.start(within=10)
            restarts.append(time.monotonic() - began)
            wrong = storm.wrong + asyncio.run(audit(storm, backend))
            assert not wrong, f"round {round_} of seed {seed}: {len(wrong)} things are wrong:\n" + "\n".join(wrong[:20])
            assert bootstrap.child.exit_code is None
    finally:
        storm.close()
    assert storm.rooms.acknowledged > 50 * rounds, storm.answers
    assert storm.engines.acknowledged > 5 * rounds, storm.answers
    assert any(attempt.complete for attempt in storm.attempts["churn-1"]), storm.answers
    return storm, restarts


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
