"""Rooms are never used twice, neither as numbers nor by late word."""

import random
import threading

import pytest

from controlplane.domain.rooms import MAX_ROOM
from workers.sdk import Mint, RoomInUse, Uses, WorkerError
from workers.sdk.errors import Overloaded


def test_rooms_are_63_bit_never_0_and_never_twice_whatever_dp_sizes_they_are_for():
    dice = random.Random(20)
    mint = Mint(dice)
    seen = set()
    for _ in range(20_000):
        size = dice.choice([1, 2, 3, 4, 7, 8, 64, 1000, 65536])
        dp = dice.randrange(size)
        room = mint.room(dp_size=size, dp=dp)
        assert room % size == dp and 0 < room <= MAX_ROOM
        seen.add(room)
    assert len(seen) == 20_000
    assert sum(room > 2**62 for room in seen) > 5_000, "they fill the whole range"


def test_rooms_for_any_dp_rank_reach_all_of_them():
    mint = Mint(random.Random(3))
    assert {mint.room(dp_size=8) % 8 for _ in range(500)} == set(range(8))


def test_the_walk_over_all_blocks_goes_past_0():
    mint = Mint(random.Random(1))
    mint._block = -mint._step % 2**47
    assert mint.room() >> 16 == mint._step


def test_two_processes_do_not_draw_the_same_rooms():
    rooms = [{mint.room() for _ in range(2000)} for mint in (Mint(), Mint())]
    assert not rooms[0] & rooms[1]


def test_threads_share_a_mint():
    mint, drawn = Mint(), []

    def draw() -> None:
        drawn.extend(mint.room(dp_size=2, dp=1) for _ in range(2000))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 8000


@pytest.mark.parametrize(("size", "dp"), [(0, 0), (65537, 0), (4, 4), (4, -1)])
def test_a_dp_rank_that_does_not_exist_gets_no_room(size, dp):
    with pytest.raises(WorkerError):
        Mint().room(dp_size=size, dp=dp)


def test_a_room_is_one_request_s_at_a_time():
    uses: Uses[str] = Uses()
    first = uses.begin(7, dp=0, kept="buffers")
    with pytest.raises(RoomInUse, match="room 7 is in use"):
        uses.begin(7, dp=1)
    assert uses.current(7) is first and uses.is_current(first)
    assert uses.end(first) and not uses.end(first)
    assert len(uses) == 0 and uses.late == 1
    second = uses.begin(7, dp=2)
    assert second.attempt != first.attempt and second.kept is None


def test_late_word_of_an_earlier_use_fails_nobody():
    uses: Uses[None] = Uses()
    first = uses.begin(7, dp=0)
    uses.end(first)
    second = uses.begin(7, dp=2)
    assert uses.failed(7, first.attempt) is None
    assert uses.is_current(second) and uses.current(7).dp == 2
    assert uses.failed(7, second.attempt) is second
    assert uses.failed(7, second.attempt) is None and uses.failed(8, 1) is None


def test_rooms_in_use_are_bounded():
    uses: Uses[None] = Uses(most=2)
    uses.begin(1)
    uses.begin(2)
    with pytest.raises(Overloaded):
        uses.begin(3)
    uses.end(uses.current(1))
    uses.begin(3)
