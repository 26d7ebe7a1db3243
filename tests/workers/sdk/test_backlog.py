"""What waits while nobody takes reports: bounded, whole rooms, spread over the absence, failures kept and told first."""

import threading

import msgspec

from controlplane.domain.claims import RUNGS
from controlplane.domain.reports import MAX_AGE_SECONDS, MAX_ITEMS, is_sampled
from workers.sdk.backlog import MOST_BYTES, Backlog, Evidence


def noted(room: int, rung: str = "resolved", result: str = "passed", at: float = 100.0, **more) -> Evidence:
    return Evidence(room, "prefill-a", rung, result, at, **more)


def add_room(backlog: Backlog, room: int, *, at: float = 100.0, fails: bool = False) -> None:
    for rung in RUNGS[1:]:
        failed = fails and rung == "verified"
        backlog.add(noted(room, rung, "damaged" if failed else "passed", at))
        if failed:
            return


def all_of(backlog: Backlog, now: float = 200.0) -> list[Evidence]:
    taken = []
    while batch := backlog.take(now):
        taken += batch
    return taken


def test_a_minute_of_three_hundred_rooms_a_second_is_kept_whole():
    backlog = Backlog()
    for room in range(300 * 60):
        for rung in RUNGS[1:4]:
            backlog.add(noted(room, rung))
        if room % 300 == 0:
            backlog.put_off()
    assert (len(backlog), backlog.dropped, backlog.share) == (54_000, 0, 1.0)


def test_of_a_longer_absence_a_share_of_the_rooms_is_kept_with_all_their_rungs_and_every_failure():
    backlog = Backlog(2000)
    for room in range(10_000):
        add_room(backlog, room, at=float(room), fails=room % 100 == 7)
        if room % 50 == 0:
            backlog.put_off()
    assert len(backlog) <= 2000 and backlog.share < 0.2
    share, taken = backlog.share, all_of(backlog, now=10_000.0)
    rungs: dict[int, list[Evidence]] = {}
    for one in taken:
        rungs.setdefault(one.room, []).append(one)
    passed = {room: said for room, said in rungs.items() if all(one.passed for one in said)}
    assert all([one.rung for one in said] == list(RUNGS[1:]) for said in passed.values()), "whole rooms"
    # The same that the control plane samples by, and of the first minutes as many as of the last.
    wanted = {room for room in range(10_000) if is_sampled(room, share) and room % 100 != 7}
    assert passed.keys() == wanted
    assert {room for room in rungs if room % 100 == 7} == set(range(7, 10_000, 100)), "every failure"
    assert backlog.dropped + len(taken) == sum(3 if room % 100 == 7 else 4 for room in range(10_000))


def test_when_everything_was_taken_all_rooms_are_kept_again():
    backlog = Backlog(100)
    for room in range(80):
        backlog.add(noted(room))
    backlog.put_off()
    assert backlog.share == 0.5 and 20 < len(backlog) < 60
    all_of(backlog)
    assert backlog.share == 1.0


def test_rooms_that_failed_are_told_first_and_in_one_report_with_all_that_is_known_of_them():
    backlog = Backlog(10_000)
    for room in range(1500):
        add_room(backlog, room, fails=room == 1400)
    backlog.put_off()
    first = backlog.take(200.0)
    assert [(one.room, one.rung) for one in first[:3]] == [(1400, rung) for rung in RUNGS[1:4]]
    # Of the others the order stays.
    assert [one.room for one in first[3:]] == sorted(one.room for one in first[3:])


def test_a_full_backlog_gives_up_the_oldest_and_no_failure_for_what_passed():
    backlog = Backlog(3)
    for room in range(5):
        backlog.add(noted(room))
    assert [one.room for one in all_of(backlog)] == [2, 3, 4] and backlog.dropped == 2
    for room in range(3):
        backlog.add(noted(room, result="failed"))
    backlog.add(noted(9))
    backlog.add(noted(8, result="failed"))
    assert [one.room for one in all_of(backlog)] == [1, 2, 8] and backlog.dropped == 4


def test_a_report_is_never_larger_than_the_control_plane_takes():
    backlog = Backlog()
    for room in range(MAX_ITEMS + 500):
        backlog.add(
            Evidence(
                2**63 - 1 - room, "i" * 100, "registered", "f" * 40, 1.0, "\U0001f600" * 200, "t" * 128, 86_399.123456
            )
        )
    sizes = []
    while batch := backlog.take(80_000.123):
        sizes.append(len(msgspec.json.encode([one.as_item(80_000.123) for one in batch])))
    assert len(sizes) > 2 and max(sizes) <= MOST_BYTES


def test_a_report_full_of_quotes_is_not_larger_either():
    backlog = Backlog()
    for room in range(MAX_ITEMS):
        backlog.add(Evidence(2**63 - 1 - room, "i" * 100, "resolved", "f" * 40, 1.0, '"' * 200, "t" * 128, 1.5))
    sizes = []
    while batch := backlog.take(80_000.123):
        sizes.append(len(msgspec.json.encode([one.as_item(80_000.123) for one in batch])))
    assert len(sizes) > 1 and max(sizes) <= MOST_BYTES


def test_what_comes_while_it_is_thinned_does_not_make_it_grow_for_ever():
    backlog = Backlog(100)
    for room in range(100):
        backlog.add(noted(room, result="failed"))

    def meanwhile(items: list[Evidence]) -> list[Evidence]:
        for room in range(100, 130):
            backlog.add(noted(room, result="failed"))
        return items

    backlog._rebuild(meanwhile)
    assert len(backlog) == 100 and backlog.dropped == 30
    assert [one.room for one in all_of(backlog)] == list(range(30, 130)), "the oldest go"


def test_what_is_older_than_a_report_may_say_is_dropped_and_not_told_younger():
    backlog = Backlog()
    backlog.add(noted(1, at=0.0))
    backlog.add(noted(2, at=100.0))
    assert [one.room for one in backlog.take(MAX_AGE_SECONDS + 50.0)] == [2] and backlog.dropped == 1


def test_threads_that_add_while_it_is_thinned_and_taken_lose_nothing_that_is_not_counted():
    backlog, taken = Backlog(4000), []

    def add(first: int) -> None:
        for room in range(first, first + 5000):
            backlog.add(noted(room))

    threads = [threading.Thread(target=add, args=(first,)) for first in (0, 10_000, 20_000)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        backlog.put_off()
        taken += backlog.take(200.0)
    taken += all_of(backlog)
    assert len(taken) + backlog.dropped == 15_000 and len({one.room for one in taken}) == len(taken)
