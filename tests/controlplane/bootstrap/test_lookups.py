"""Who asked for a room and when it was told: those that waited first, bounded, and never twice at once."""

import asyncio

from controlplane.bootstrap import lookups
from controlplane.bootstrap.lookups import AT_ONCE, Lookups
from controlplane.ledger.failures import FencedOut


class Recorder:
    """Stores, or fails as it is told to."""

    def __init__(self, *problems: Exception | None) -> None:
        self.problems, self.kept = list(problems), []

    async def keep_lookups(self, rows):
        if self.problems and (problem := self.problems.pop(0)) is not None:
            raise problem
        self.kept += rows


def at(share: float = 1.0) -> Lookups:
    return Lookups(Recorder(), share=share)


def test_a_room_that_is_there_is_told_at_once_however_many_ranks_ask():
    seen = at()
    for _ in range(4):
        seen.asked(1, "10.0.0.9", [7, 8], {7: 0, 8: 1}, 100.0)
    assert sorted(seen.rows(101.0)) == [(1, 7, 100.0, "10.0.0.9", 100.0), (1, 8, 100.0, "10.0.0.9", 100.0)]
    assert seen.rows(102.0) == []


def test_who_waits_is_told_of_when_it_is_answered_and_before_when_that_takes_long():
    seen = at()
    seen.asked(1, "a", [7, 8], {}, 100.0)
    seen.asked(1, "b", [7], {}, 101.0)
    assert seen.rows(102.0) == []
    seen.asked(1, "b", [7], {7: 0}, 103.0)
    # The first who asked is the one that counts.
    assert seen.rows(104.0) == [(1, 7, 100.0, "a", 103.0)]
    assert seen.rows(106.0) == [(1, 8, 100.0, "a", None)] and seen.rows(108.0) == []
    seen.asked(1, "a", [8], {8: 1}, 109.0)
    assert seen.rows(110.0) == [(1, 8, 100.0, "a", 109.0)]


def test_who_never_is_answered_is_forgotten_and_counted():
    seen = at()
    seen.asked(1, "a", [7], {}, 100.0)
    assert len(seen.rows(106.0)) == 1 and (seen.waiting, seen.given_up) == (1, 0)
    assert seen.rows(701.0) == [] and (seen.waiting, seen.given_up) == (0, 1)
    assert seen.asked(1, "a", [7], {7: 0}, 702.0) == []
    assert seen.rows(703.0) == [(1, 7, 702.0, "a", 702.0)]


def test_for_how_long_a_room_was_waited_for_is_told_once_also_when_that_took_long():
    seen = at()
    assert seen.asked(1, "a", [7, 8, 9], {9: 0}, 100.0) == [] and seen.waiting == 2
    assert seen.asked(1, "b", [7, 9], {7: 0, 9: 0}, 102.5) == [2.5]
    assert seen.asked(2, "a", [8], {8: 0}, 103.0) == [], "another instance has rooms of its own"
    seen.rows(106.0)
    assert seen.asked(1, "a", [8], {8: 0}, 107.0) == [7.0] and seen.asked(1, "a", [8], {8: 0}, 108.0) == []
    assert (seen.waiting, seen.given_up) == (0, 0)


def test_no_more_rows_than_can_be_stored_come_at_a_time_and_nobody_s_wait_is_lost(monkeypatch):
    monkeypatch.setattr(lookups, "MOST_ROWS", 3)
    seen = at()
    seen.asked(1, "a", range(5), {}, 100.0)
    assert [row[1] for row in seen.rows(106.0)] == [0, 1, 2] and [row[1] for row in seen.rows(108.0)] == [3, 4]
    assert seen.asked(1, "a", range(5), dict.fromkeys(range(5), 0), 109.0) == [9.0] * 5
    assert len(seen.rows(110.0)) == 3 and seen.left_out == 2


def test_no_more_is_kept_than_can_be_stored_and_what_waited_comes_first(monkeypatch):
    monkeypatch.setattr(lookups, "MOST_WAITING", 10)
    seen = at()
    many = list(range(AT_ONCE + 50))
    seen.asked(1, "a", list(range(5000, 5020)), {}, 99.0)
    assert (seen.left_out, seen.given_up) == (10, 10)
    seen.asked(1, "a", many, dict.fromkeys(many, 0), 100.0)
    seen.asked(1, "a", [5000], {5000: 0}, 101.0)
    rows = seen.rows(101.0)
    assert len(rows) == AT_ONCE + 1 and (1, 5000, 99.0, "a", 101.0) in rows and seen.left_out == 60
    for _ in range(3):
        seen.asked(1, "a", many, dict.fromkeys(many, 0), 103.0)
    assert len(seen.rows(104.0)) == AT_ONCE + 9, "nine waited for too long, and the others were counted"


def test_of_rooms_that_were_there_a_share_is_kept_and_of_those_that_waited_all():
    seen = at(share=0.0)
    seen.asked(1, "a", [7], {}, 100.0)
    seen.asked(1, "a", [7, 8], {7: 0, 8: 0}, 101.0)
    assert seen.rows(102.0) == [(1, 7, 100.0, "a", 101.0)]


async def test_what_cannot_be_stored_is_left_out_and_who_lost_the_lead_stops():
    recorder = Recorder(OSError("the disk is full"), None, FencedOut())
    seen = Lookups(recorder, share=1.0, every=0.01)
    running = asyncio.create_task(seen.run())
    for room in range(3):
        seen.asked(1, "a", [room], {room: 0}, 100.0)
        while seen._answered:
            await asyncio.sleep(0.005)
    await asyncio.wait_for(running, 10)
    assert [row[1] for row in recorder.kept] == [1] and seen.left_out == 1
