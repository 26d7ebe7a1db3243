"""Reports to a control plane of another version: less is told where less is understood, no room is lost, and it is said."""

import pytest

from tests.workers.sdk.server import say
from tests.workers.sdk.test_reports import Clock, reports_at
from workers.sdk.backlog import Evidence
from workers.sdk.skew import LEFT_OUT_SECONDS, NEWER, Dialect

__all__ = ["reports_at"]

OLDEST = {"source", "evidence"}
OF_ITEMS = {"room", "instance", "rung", "result", "age_seconds", "detail", "launch_token"}


def api(
    heard, *, knows=OLDEST, of_items=OF_ITEMS, rungs=("registered", "resolved", "connected", "verified", "consumed")
):
    """As the API is strict: every field that is not known is pointed at, or else every rung that it does not have."""
    body = heard.json()
    faults = [(f"/{name}", "unknown") for name in body.keys() - knows]
    for place, item in enumerate(body["evidence"]):
        faults += [(f"/evidence/{place}/{name}", "unknown") for name in item.keys() - of_items]
        faults += [(f"/evidence/{place}/rung", "invalid_choice")] if item["rung"] not in rungs else []
    if faults:
        errors = [{"pointer": pointer, "code": code, "detail": "no"} for pointer, code in faults]
        return say({"status": 400, "code": "malformed", "detail": f"{faults[0][0][1:]}: no", "errors": errors}, 400)
    known = [item for item in body["evidence"] if item["instance"] == "a"]
    unknown = sorted({item["instance"] for item in body["evidence"]} - {"a"})
    return say({"kept": len(known), "left_out": 0, "unknown": unknown})


async def test_an_older_api_is_told_without_what_it_does_not_know_and_nothing_is_lost(serve, reports_at, caplog):
    server, clock = serve(api), Clock()
    reports = reports_at(server, clock=clock)
    for room in range(3):
        reports.note(room, "a", "resolved", took=0.5)
        await reports.flush()
    assert (reports.sent, reports.dropped, reports.waiting) == (3, 0, 0)
    assert len(server.heard) == 4, "it is asked with everything once"
    last = server.heard[-1].json()
    assert last.keys() == OLDEST and last["evidence"][0].keys() == OF_ITEMS and last["evidence"][0]["room"] == "2"
    # Asked again later, for it may have been upgraded; what is known is not said again.
    clock.now += LEFT_OUT_SECONDS + 1
    reports.note(3, "a", "resolved", took=0.5)
    await reports.flush()
    assert (reports.sent, len(server.heard)) == (4, 6)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "older than this worker and does not know batch and took_seconds" in said[0]
    assert "counted twice" in said[0]


async def test_once_it_is_upgraded_it_is_told_everything_again(serve, reports_at):
    upgraded = [False]
    server, clock = serve(lambda heard: say({"kept": 1}) if upgraded[0] else api(heard)), Clock()
    reports = reports_at(server, clock=clock)
    reports.note(1, "a", "resolved", took=0.5)
    await reports.flush()
    upgraded[0], clock.now = True, clock.now + LEFT_OUT_SECONDS + 1
    reports.note(2, "a", "resolved", took=0.5)
    await reports.flush()
    assert server.heard[-1].json()["batch"]["number"] == 2
    assert server.heard[-1].json()["evidence"][0]["took_seconds"] == 0.5


async def test_items_that_make_no_sense_there_do_not_take_the_others_with_them(serve, reports_at, caplog):
    knows = OLDEST | {"batch"}
    server = serve(lambda heard: api(heard, knows=knows, rungs=("resolved", "consumed")))
    reports = reports_at(server)
    for room in range(5):
        reports.note(room, "a", "verified" if room % 2 else "resolved")
    await reports.flush()
    assert (reports.sent, reports.dropped, reports.waiting) == (3, 2, 0)
    assert [item["room"] for item in server.heard[-1].json()["evidence"]] == ["0", "2", "4"]
    assert "2 dropped" in caplog.records[-1].getMessage()
    reports.note(5, "a", "verified")
    reports.note(6, "a", "verified")
    await reports.flush()
    assert (reports.dropped, reports.waiting, len(server.heard)) == (4, 0, 3), (
        "nothing is left of it, so nothing is sent"
    )


async def test_a_refusal_that_points_at_nothing_that_can_be_left_out_ends(serve, reports_at):
    errors = [{"pointer": "/source", "code": "max_length", "detail": "no"}, {"pointer": 7}, "x"]
    server = serve(lambda heard: say({"detail": "source: no", "errors": errors}, 400))
    reports = reports_at(server)
    reports.note(1, "a", "resolved")
    await reports.flush()
    assert (len(server.heard), reports.dropped, reports.waiting) == (1, 1, 0)


async def test_evidence_of_an_instance_that_nobody_knows_is_said_once(serve, reports_at, caplog):
    reports = reports_at(serve(lambda heard: api(heard, knows=OLDEST | {"batch"})))
    for room in range(3):
        reports.note(room, "prefil-a", "resolved")
        reports.note(room, "a", "resolved")
        await reports.flush()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["the control plane knows no instance prefil-a: evidence of its rooms is not kept"]


@pytest.mark.parametrize("took", [None, 0.5])
def test_what_is_left_out_is_left_out_everywhere(took):
    dialect = Dialect()
    item = Evidence(1, "a", "resolved", "passed", 0.0, took=took).as_item(1.0)
    report = {"source": "w", "batch": {"run": "r", "number": 1}, "evidence": [item]}
    assert dialect.said(report, 0.0) is report
    # Whoever adds a field to a report adds it there too.
    dialect.left_out = NEWER
    said = dialect.said(report, 0.0)
    assert said.keys() == OLDEST and set(said["evidence"][0]) == OF_ITEMS
