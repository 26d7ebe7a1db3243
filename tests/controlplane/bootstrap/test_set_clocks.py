"""The host's clock is set while the directory serves: nothing ends before its time, and nothing is kept beyond it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.bootstrap import room_recorder
from controlplane.bootstrap.fleet import Instance
from controlplane.bootstrap.flush import Flushes
from controlplane.bootstrap.room_recorder import RoomRecorder
from controlplane.bootstrap.steady import Steady
from controlplane.domain.directory import Debt
from controlplane.domain.health import FIRST_POLL_WITHIN, FLUSH_LIMIT
from controlplane.domain.rooms import Rooms
from tests.controlplane.bootstrap.test_commits import Journal

DAY = 86_400.0
WALL, NOW = 1_800_000_000.0, 500.0


def owing(since: float, *, hold: bool = False) -> Instance:
    """One that a decode polls, which is never told no."""
    instance = Instance(1, "p")
    instance.directory = replace(instance.directory, debt=Debt(since, hold))
    instance.pollers.polled(1, 200, NOW)
    return instance


def ends_after(flushes: Flushes, instance: Instance, *, now: float = NOW) -> int:
    """In whole seconds, while the decode goes on polling."""
    for second in range(200):
        instance.pollers.polled(1, 200, now + second)
        if flushes.over([instance], now + second):
            return second
    raise AssertionError("never")


@pytest.mark.parametrize("since", [WALL, WALL - DAY, WALL + DAY])
def test_a_flush_that_begins_here_lasts_as_long_whatever_hour_it_is_said_to_have_begun_at(since):
    flushes = Flushes([], wall=WALL, now=NOW)
    assert ends_after(flushes, owing(since)) == FLUSH_LIMIT


def test_the_next_flush_of_the_same_instance_begins_anew_and_one_that_is_held_does_not_end():
    flushes, instance = Flushes([], wall=WALL, now=NOW), owing(WALL)
    assert ends_after(flushes, instance) == FLUSH_LIMIT
    instance.directory = replace(instance.directory, debt=None)
    assert flushes.over([instance], NOW + 61) == []
    instance.directory = replace(instance.directory, debt=Debt(WALL + 62, True))
    assert flushes.over([instance], NOW + 62) == flushes.over([instance], NOW + 200) == []
    # Everybody was told no meanwhile; the launch that served is whole again.
    instance.directory = replace(instance.directory, debt=Debt(WALL + 62, False))
    assert flushes.over([instance], NOW + 201) == [instance]


@pytest.mark.parametrize(
    ("set_by", "lasts"),
    [(0.0, FLUSH_LIMIT - 20), (DAY, FIRST_POLL_WITHIN), (-DAY, FLUSH_LIMIT)],
)
def test_a_flush_that_another_process_began_leaves_decodes_the_time_to_come_back(set_by, lasts):
    instance = owing(WALL - 20)
    flushes = Flushes([instance], wall=WALL + set_by, now=NOW)
    assert ends_after(flushes, instance) == lasts


def test_a_steady_clock_knows_by_how_much_the_other_was_set():
    wall, even = [WALL], [NOW]
    clock = Steady(wall=lambda: wall[0], even=lambda: even[0])
    wall[0], even[0] = WALL + 5 + DAY, NOW + 5
    assert (clock(), clock.ms(), clock.set_by) == (WALL + 5, round((WALL + 5) * 1000), DAY)


class Kept(Journal):
    """What was stored, as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Any] = []

    def append(self, token: int, rows: list[Any], *_: Any) -> None:
        self.rows += rows


async def test_rooms_outlive_a_clock_that_is_set_and_what_is_stored_goes_by_it(monkeypatch):
    wall, even, store = [WALL], [NOW], Kept()
    monkeypatch.setattr(room_recorder, "time", SimpleNamespace(time=lambda: wall[0], monotonic=time.monotonic))
    recorder = RoomRecorder(store, Rooms(limit=10), ttl_seconds=60, fenced_out=lambda: None)  # type: ignore[arg-type]
    recorder.clock = Steady(wall=lambda: wall[0], even=lambda: even[0])
    table = recorder._rooms.table(1)
    running = asyncio.create_task(recorder.run())
    async with asyncio.timeout(60):
        assert await recorder.bind(1, 7, 0)
        wall[0] += DAY
        assert table.find(7, recorder.clock.ms()) == 0
        assert await recorder.bind(1, 8, 0)
        wall[0] -= 2 * DAY
        assert await recorder.bind(1, 9, 0)
    running.cancel()
    recorder.close()
    assert [row[3] / 1000 - WALL for row in store.rows] == [60, DAY + 60, 60 - DAY]
    assert table.find_many((7, 8, 9), recorder.clock.ms()) == {7: 0, 8: 0, 9: 0}
    even[0] += 61
    assert table.find_many((7, 8, 9), recorder.clock.ms()) == {}
