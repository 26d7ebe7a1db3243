"""Public reports, the workers' half: rooms, DP ranks, and look-ups that are no storm."""

import threading
import time

import pytest

from tests.cases.ranks import eventually
from tests.cases.test_workers_reaching import GENEROUS, TP1, at, rank_on
from tests.support.machine import slowness
from tests.wire.conftest import Server
from tests.workers.sdk.directory import Directory
from tests.workers.sdk.server import serving
from workers.sdk import Client, ControlPlane, RoomInUse, Uses


def test_TOP_01_a_worker_reports_the_effective_dp_rank(server: Server, tenant):
    replicas = [rank_on(41000 + n, system_dp_size=2, system_dp_rank=n) for n in range(2)]
    assert [one.attn_dp_rank for one in replicas] == [0, 0] and [one.dp_rank for one in replicas] == [0, 1]
    with Client(at(server, tenant), token="launch-1") as client:
        client.register(replicas).wait(within=GENEROUS)
        found = client.until_ready(TP1, within=GENEROUS)
        assert found.topology.dp == 2 and [one.port for one in found.targets(1)] == [41001]
        client.bind(901, replicas[1])
        assert client.find_rooms([901], within=GENEROUS) == {901: 1}


def test_TOP_03_a_recorded_rank_is_preferred_to_arithmetic_and_arithmetic_is_left_for_the_others(
    server: Server, tenant
):
    with Client(at(server, tenant), token="launch-1") as client:
        client.register([rank_on(41000 + n, attn_dp_size=4, attn_dp_rank=n) for n in range(4)]).wait(within=GENEROUS)
        found = client.until_ready(TP1, within=GENEROUS)
        client.bind(1001, 3)
        assert client.dp_of(1001, found) == 1, "without a look"
        assert client.dp_of(1001, found, recorded_first=True) == 3
        assert client.dp_of(1002, found, recorded_first=True) == 1002 % 4
        assert client.mint.room(dp_size=4, dp=3) % 4 == 3


def test_ROOM_01_a_second_request_for_an_active_room_is_a_normal_error_of_that_request():
    uses: Uses[str] = Uses()
    first = uses.begin(42, dp=0, kept="the first request")
    with pytest.raises(RoomInUse, match="room 42 is in use by another request") as refused:
        uses.begin(42, dp=1, kept="the second")
    assert refused.value.status == 409
    assert uses.current(42) is first and uses.current(42).kept == "the first request"


def test_ROOM_07_late_word_of_the_first_use_does_not_fail_the_second(server: Server, tenant):
    uses: Uses[None] = Uses()
    with Client(at(server, tenant), token="launch-1") as client:
        client.register([rank_on(41000 + n, attn_dp_size=3, attn_dp_rank=n) for n in range(3)]).wait(within=GENEROUS)
        first = uses.begin(7, dp=0)
        client.bind(7, 0)
        assert uses.failed(7, first.attempt) is first
        assert len(uses) == 0, "clearing a room removes all of it"
        second = uses.begin(7, dp=2)
        client.bind(7, 2)
        # The delayed notice of the first use comes now, and one about a room that nobody knows.
        assert uses.failed(7, first.attempt) is None and uses.failed(8, 1) is None
        assert uses.is_current(second)
        assert client.find_rooms([7], within=GENEROUS) == {7: 2}


def test_SCL_01_however_many_ask_there_is_one_query_at_a_time_over_one_connection_and_seldom():
    directory = Directory()
    with serving(directory.answer) as counting, Client(ControlPlane(counting.place, counting.place)) as client:
        found: list[dict[int, int]] = []

        def ask(n: int) -> None:
            found.append(client.find_rooms(range(n * 50, n * 50 + 50), within=GENEROUS))

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(32)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        eventually(lambda: len(counting.heard) >= 5, within=GENEROUS)
        directory.rooms = {room: room % 8 for room in range(1600)}
        for thread in threads:
            thread.join(GENEROUS)
        took = time.monotonic() - began
        assert sum(map(len, found)) == 1600
        assert counting.connections == 1 and counting.most_at_once == 1
        assert len(counting.heard) < 10 + took / 0.05


def test_SCL_01_a_room_that_arithmetic_tells_is_not_asked_for(server: Server, tenant):
    with Client(at(server, tenant), token="launch-1") as client:
        client.register([rank_on(41000 + n, attn_dp_size=2, attn_dp_rank=n) for n in range(2)]).wait(within=GENEROUS)
        found = client.until_ready(TP1, within=GENEROUS)
        began = time.monotonic()
        for room in range(2000):
            assert found.dp_of(room) == room % 2
        assert (time.monotonic() - began) / slowness() < 1
