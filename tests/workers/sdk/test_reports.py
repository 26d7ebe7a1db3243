"""Reports are gathered and sent in batches; what cannot be sent is bounded, and counted."""

import pytest

from tests.workers.sdk.server import HANG, Said, say
from workers.sdk import ControlPlane, WorkerError
from workers.sdk.reports import EVIDENCE_PATH, OPEN_ROOMS_PATH, Reports
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
    assert [int(one["room"]) for one in server.heard[-1].json()["evidence"]] == [6, 7, 8, 9, 10, 11, 12, 13, 14, 99]
    assert (reports.sent, reports.dropped) == (10, 6)


async def test_where_nobody_takes_evidence_it_is_dropped_and_counted_and_asked_again_in_a_minute(serve, reports_at):
    takes = [False]
    server, clock = serve(lambda heard: OK if takes[0] else Said(404, b"{}")), Clock()
    reports = reports_at(server, clock=clock)
    for _ in range(3):
        reports.note(1, "a", "resolved")
        await reports.flush()
    assert len(server.heard) == 1 and reports.dropped == 3
    takes[0], clock.now = True, clock.now + 61
    reports.note(2, "a", "resolved")
    await reports.flush()
    assert (reports.sent, reports.dropped) == (1, 3)


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
    assert len(reports._evidence) == 5 and reports.dropped == 0


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
