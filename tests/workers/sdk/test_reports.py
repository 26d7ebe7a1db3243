"""Reports are gathered and sent in batches; what cannot be sent is bounded, and counted."""

import asyncio

import pytest

from tests.workers.sdk.server import HANG, Said, say
from workers.sdk import ControlPlane, WorkerError
from workers.sdk.reports import BATCHES_AT_ONCE, EVIDENCE_PATH, OPEN_ROOMS_PATH, Reports
from workers.sdk.wire import Wire

OK = say({"kept": 1})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def reports_at():
    wire = Wire()

    def make(server, **more) -> Reports:
        return Reports(wire, ControlPlane(server.place, server.place, server.place, "a", "secret"), server.place,
                       source="host/1", **more)  # fmt: skip

    yield make
    await wire.aclose()


async def test_evidence_is_sent_in_batches_with_its_age_and_rooms_as_text(serve, reports_at):
    server, clock = serve(lambda heard: OK), Clock()
    reports = reports_at(server, clock=clock)
    for n in range(4500):
        reports.note(2**62 + n, "prefill-a", "verified", "failed" if n % 2 else "passed", detail="another room")
    clock.now += 2.5
    await reports.flush()
    assert [len(heard.json()["evidence"]) for heard in server.heard] == [2000, 2000, 500]
    assert server.paths == [EVIDENCE_PATH] * 3 and server.heard[0].headers["x-pd-token"] == "secret"
    assert server.heard[0].json()["source"] == "host/1"
    assert server.heard[0].json()["evidence"][1] == {
        "room": str(2**62 + 1),
        "instance": "prefill-a",
        "rung": "verified",
        "result": "failed",
        "age_seconds": 2.5,
        "detail": "another room",
        "launch_token": "",
    }
    assert (reports.sent, reports.dropped) == (4500, 0)


async def test_what_cannot_be_sent_waits_in_its_order_and_the_oldest_are_dropped_and_counted(serve, reports_at):
    up = [False]
    server = serve(lambda heard: OK if up[0] else Said(503, b"not now"))
    reports = reports_at(server, most=10)
    for n in range(15):
        reports.note(n, "a", "connected")
    assert reports.dropped == 5
    await reports.flush()
    reports.note(99, "a", "connected")
    up[0] = True
    await reports.flush()
    told = [[int(one["room"]) for one in heard.json()["evidence"]] for heard in server.heard[-2:]]
    assert told == [[5, 6, 7, 8, 9, 10, 11, 12, 13, 14], [99]]
    assert (reports.sent, reports.dropped) == (11, 5)


@pytest.mark.parametrize("status", [404, 401, 403])
async def test_where_nobody_takes_evidence_it_waits_for_a_minute_and_is_dropped_when_that_was_not_all(
    serve, reports_at, status
):
    takes = [False]
    server, clock = serve(lambda heard: OK if takes[0] else Said(status, b"{}")), Clock()
    reports = reports_at(server, clock=clock)
    for _ in range(3):
        reports.note(1, "a", "resolved")
        await reports.flush()
    assert len(server.heard) == 1 and (reports.dropped, reports.waiting) == (0, 3)
    # A proxy may say that, while nobody stands behind it: once is no proof.
    clock.now += 61
    await reports.flush()
    assert len(server.heard) == 2 and (reports.dropped, reports.waiting) == (3, 0)
    takes[0], clock.now = True, clock.now + 61
    reports.note(2, "a", "resolved")
    await reports.flush()
    assert (reports.sent, reports.dropped) == (1, 3)
    assert [one["room"] for one in server.heard[-1].json()["evidence"]] == ["2"]


async def test_open_rooms_are_counted_anew_each_time_zeros_included(serve, reports_at):
    server = serve(lambda heard: OK)
    reports, rooms = reports_at(server), {0: 2, 1: 0}
    reports.count_open("a", lambda: rooms, launch_token="t")
    await reports.flush()
    rooms = {0: 0, 1: 0}
    await reports.flush()
    assert server.paths == [OPEN_ROOMS_PATH] * 2
    first, second = (heard.json()["open_rooms"] for heard in server.heard)
    assert first[0] == {"instance": "a", "dp": 0, "open_rooms": 2, "age_seconds": 0, "launch_token": "t"}
    assert [one["open_rooms"] for one in second] == [0, 0]


async def test_who_fails_to_count_reports_no_zero_and_ends_nothing(serve, reports_at):
    server = serve(lambda heard: OK)
    reports = reports_at(server)
    reports.count_open("broken", lambda: 1 // 0)
    reports.count_open("a", lambda: {0: 1})
    await reports.flush()
    assert [one["instance"] for one in server.heard[0].json()["open_rooms"]] == ["a"]


async def test_a_server_that_hangs_holds_nobody_who_notes(serve, reports_at, monkeypatch):
    monkeypatch.setattr("workers.sdk.reports.SEND_SECONDS", 0.2)
    reports = reports_at(serve(lambda heard: HANG), most=5)
    for n in range(5):
        reports.note(n, "a", "consumed")
    await reports.flush()
    assert (reports.waiting, reports.dropped) == (5, 0)


@pytest.mark.parametrize(("rung", "result"), [("arrived", "passed"), ("verified", "Not A Word"), ("verified", "")])
async def test_what_is_no_evidence_is_refused(serve, reports_at, rung, result):
    with pytest.raises(WorkerError, match="one of registered, resolved, connected, verified, consumed"):
        reports_at(serve(lambda heard: OK)).note(1, "a", rung, result)


async def test_each_rung_says_how_long_it_took_since_the_one_before_of_its_room(serve, reports_at):
    server, clock = serve(lambda heard: OK), Clock()
    reports = reports_at(server, clock=clock)
    reports.note(1, "a", "resolved", took=0.25)
    clock.now += 5
    reports.note(2, "a", "resolved")
    reports.note(1, "a", "connected")
    clock.now += 1
    reports.note(1, "a", "verified", "failed")
    reports.note(1, "a", "consumed")
    await reports.flush()
    told = [(item["room"], item["rung"], item.get("took_seconds")) for item in server.heard[0].json()["evidence"]]
    assert told == [
        ("1", "resolved", 0.25), ("2", "resolved", None), ("1", "connected", 5.0), ("1", "verified", 1.0),
        ("1", "consumed", None),
    ]  # fmt: skip


async def test_rooms_that_never_end_are_forgotten_the_oldest_first(serve, reports_at, monkeypatch):
    monkeypatch.setattr("workers.sdk.reports.MOST_ON_THEIR_WAY", 3)
    reports = reports_at(serve(lambda heard: OK))
    for room in range(5):
        reports.note(room, "a", "resolved")
    assert [room for room, _ in reports._noted] == [2, 3, 4]


async def test_a_batch_whose_answer_was_lost_is_sent_again_as_it_was_and_the_next_one_has_the_next_number(
    serve, reports_at
):
    answers = [HANG, OK, OK]
    server, clock = serve(lambda heard: answers.pop(0)), Clock()
    reports = reports_at(server, clock=clock)
    reports.note(1, "a", "resolved")
    with pytest.MonkeyPatch.context() as soon:
        soon.setattr("workers.sdk.reports.SEND_SECONDS", 0.2)
        await reports.flush()
    assert (reports.sent, reports.waiting) == (0, 1)
    clock.now += 30
    reports.note(2, "a", "resolved")
    await reports.flush()
    first, again, next_one = (heard.json() for heard in server.heard)
    assert first["batch"] == again["batch"] and again["batch"]["number"] == 1
    assert next_one["batch"] == {"run": first["batch"]["run"], "number": 2}
    assert [[one["room"] for one in said["evidence"]] for said in (first, again, next_one)] == [["1"], ["1"], ["2"]]
    # Told late, it is as old as it is: the time is right, whenever it arrives.
    assert (first["evidence"][0]["age_seconds"], again["evidence"][0]["age_seconds"]) == (0.0, 30.0)
    assert (reports.sent, reports.dropped, reports.waiting) == (2, 0, 0)
    assert reports_at(server)._run != reports._run


async def test_a_flush_that_is_cut_off_loses_nothing(serve, reports_at):
    answers = [HANG, OK]
    server = serve(lambda heard: answers.pop(0))
    reports = reports_at(server)
    reports.note(1, "a", "resolved")
    cut = asyncio.create_task(reports.flush())
    while not server.heard:
        await asyncio.sleep(0.005)
    cut.cancel()
    await asyncio.wait([cut])
    await reports.flush()
    assert (reports.sent, reports.waiting) == (1, 0) and len(server.heard) == 2


async def test_a_report_that_is_refused_for_what_it_says_does_not_hold_up_the_next_ones(serve, reports_at):
    answers = [Said(400, b'{"detail": "item 0: no"}'), OK]
    reports = reports_at(serve(lambda heard: answers.pop(0)))
    reports.note(1, "a", "resolved")
    await reports.flush()
    assert (reports.sent, reports.dropped, reports.waiting) == (0, 1, 0)
    reports.note(2, "a", "resolved")
    await reports.flush()
    assert (reports.sent, reports.dropped) == (1, 1)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_whoever_cannot_take_it_now_is_asked_again(serve, reports_at, status):
    answers = [Said(status, b"later"), OK]
    reports = reports_at(serve(lambda heard: answers.pop(0)))
    reports.note(1, "a", "resolved")
    await reports.flush()
    await reports.flush()
    assert (reports.sent, reports.dropped) == (1, 0)


async def test_counts_that_are_refused_do_not_hold_up_evidence_and_it_is_said_once(serve, reports_at, caplog):
    server = serve(lambda heard: Said(400, b"no") if heard.path == OPEN_ROOMS_PATH else OK)
    reports = reports_at(server)
    reports.count_open("a", lambda: {0: 1})
    for room in range(3):
        reports.note(room, "a", "resolved")
        await reports.flush()
    assert reports.sent == 3
    assert [record.getMessage().count("was refused") for record in caplog.records] == [1]


async def test_what_has_waited_is_told_ten_reports_at_a_time_so_that_others_have_their_turn(serve, reports_at):
    server = serve(lambda heard: OK)
    reports = reports_at(server)
    for room in range(2000 * BATCHES_AT_ONCE + 1):
        reports.note(room, "a", "resolved")
    await reports.flush()
    assert len(server.heard) == BATCHES_AT_ONCE and reports.waiting == 1


async def test_the_last_word_is_all_that_waits_and_ends_where_nobody_takes_it(serve, reports_at):
    takes = [True]
    server = serve(lambda heard: OK if takes[0] else Said(503, b"no"))
    reports = reports_at(server)
    for room in range(2000 * BATCHES_AT_ONCE + 1):
        reports.note(room, "a", "resolved")
    await reports.flush_all()
    assert (reports.sent, reports.waiting) == (2000 * BATCHES_AT_ONCE + 1, 0)
    takes[0] = False
    reports.note(1, "a", "resolved")
    await reports.flush_all()
    assert reports.waiting == 1


async def test_what_no_report_can_say_is_refused_when_it_is_noted_or_made_sayable(serve, reports_at):
    server = serve(lambda heard: OK)
    reports = reports_at(server)
    for room, instance in ((-1, "a"), (2**63, "a"), (1, ""), (1, "x" * 101), (1, "a\ud800")):
        with pytest.raises(WorkerError, match="room from 0 to 2"):
            reports.note(room, instance, "resolved")
    reports.note(1, "a", "resolved", detail="nul\0 and\nline", launch_token="half a pair \udc00")
    await reports.flush()
    (told,) = server.heard[0].json()["evidence"]
    assert (told["detail"], told["launch_token"]) == ("nul  and line", "half a pair  ")
