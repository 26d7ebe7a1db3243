"""What workers tell of rooms: kept whole or refused whole, sampled by the room, bounded in rows and in time."""

import pytest
from django.conf import settings

from controlplane.commands import evidence
from controlplane.commands.trimming import Budget
from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.ledger.failures import FencedOut
from controlplane.ledger.store import RoomStore
from controlplane.metrics.web import REPORTED_RUNGS, RUNG_SECONDS
from controlplane.models import Instance, ReportBatch, RoomLookup, RoomReport
from tests.controlplane.commands.on_backend import on_backend
from tests.controlplane.metrics.scraping import Scrape

__all__ = ["on_backend"]

NOW = 1_900_000_000.0
DAY = 86_400.0


@pytest.fixture(autouse=True)
def _fleet(on_backend):
    Instance.objects.using(FACTS).create(name="p", role="prefill", created_at=NOW)


@pytest.fixture
def knob(monkeypatch):
    return lambda name, value: monkeypatch.setattr(settings, name, value)


def item(room: int | str = 7, rung: str = "resolved", result: str = "passed", **more) -> dict:
    return {"room": room, "instance": "p", "rung": rung, "result": result, "age_seconds": 2.0, **more}


def rows() -> list[RoomReport]:
    return list(RoomReport.objects.using(TRAFFIC).order_by("id"))


def test_a_report_is_stored_with_who_when_and_which_launch():
    said = item("9223372036854775807", detail="two ranks", launch_token="t1", took_seconds=0.5)
    assert evidence.report_evidence("host/1", [said], NOW, speaker="token:w") == evidence.Kept(1, 0, ())
    (row,) = rows()
    assert (row.room, row.instance, row.rung, row.result) == (2**63 - 1, "p", "resolved", "passed")
    assert (row.source, row.speaker, row.launch_token, row.detail) == ("host/1", "token:w", "t1", "two ranks")
    assert (row.at, row.received_at, row.took_seconds) == (NOW - 2.0, NOW, 0.5)


def test_instances_that_nobody_knows_are_named_and_nothing_of_them_is_kept():
    ghost = {**item(), "instance": "ghost"}
    assert evidence.report_evidence("w", [item(), ghost], NOW) == evidence.Kept(1, 0, ("ghost",))
    assert [row.instance for row in rows()] == ["p"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"room": -1}, "room must be a whole number"),
        ({"room": "9" * 19}, "room must be a whole number"),
        ({"room": True}, "room must be a whole number"),
        ({"rung": "arrived"}, "rung must be one of registered, resolved, connected, verified, consumed"),
        ({"result": "Not a word"}, "result must be 1 to 40 lower-case letters"),
        ({"age_seconds": -1}, "age_seconds must be from 0"),
        ({"took_seconds": "long"}, "took_seconds must be a number"),
        ({"detail": "x" * 201}, "detail must be text of at most 200"),
        ({"detail": "a\x00b"}, "detail must be text"),
        ({"instance": ""}, "instance is missing"),
    ],
)
def test_one_item_that_makes_no_sense_refuses_all_of_them_and_is_named(wrong, said):
    with pytest.raises(Refused, match=f"item 1: {said}"):
        evidence.report_evidence("w", [item(), item(**wrong)], NOW)
    assert rows() == []


def test_an_item_without_an_age_a_source_without_a_name_and_too_many_items_are_refused():
    ageless = item()
    del ageless["age_seconds"]
    for source, items in (("w", [ageless]), ("", [item()]), ("a\nb", [item()]), ("w", [item()] * 2001)):
        with pytest.raises(Refused):
            evidence.report_evidence(source, items, NOW)
    assert rows() == []


def test_of_rooms_without_a_failure_a_share_is_kept_whole_and_failures_all_are(knob):
    knob("PDCP_EVIDENCE_SHARE", 0.25)
    whole = [item(room, rung) for room in range(400) for rung in ("resolved", "connected")]
    kept = evidence.report_evidence("w", whole, NOW)
    rooms = [row.room for row in rows()]
    assert kept.kept + kept.left_out == 800 and 100 < kept.kept < 300
    assert all(rooms.count(room) == 2 for room in set(rooms))
    knob("PDCP_EVIDENCE_SHARE", 0.0)
    failing = [item(1000), item(1000, "connected", "failed"), item(1001), item(1002, "verified", "other_room")]
    assert evidence.report_evidence("w", failing, NOW) == evidence.Kept(3, 1, ())
    assert [row.room for row in rows()][-3:] == [1000, 1000, 1002]


def test_whoever_reports_faster_than_is_trimmed_fills_no_disk(knob):
    evidence.report_evidence("w", [item(room) for room in range(1000)], NOW)
    knob("PDCP_EVIDENCE_LIMIT", 700)
    both = [item(1), item(2, "connected", "failed")]
    assert evidence.report_evidence("w", both, NOW) == evidence.Kept(1, 1, ())
    knob("PDCP_EVIDENCE_LIMIT", 300)
    assert evidence.report_evidence("w", both, NOW) == evidence.Kept(0, 2, ())
    assert evidence.forget_old(now=NOW) == 701 and len(rows()) == 300
    assert evidence.report_evidence("w", both, NOW).kept == 2


def test_what_is_older_than_it_is_kept_goes_and_the_rest_stays(knob):
    evidence.report_evidence("w", [item(1)], NOW - 1.5 * DAY)
    evidence.report_evidence("w", [item(2)], NOW)
    for room, at in ((1, NOW - 1.5 * DAY), (2, NOW)):
        RoomLookup.objects.using(TRAFFIC).create(instance_id=1, room=room, asked_at=at, asked_by="d")
    knob("PDCP_KEEP_EVIDENCE_DAYS", 0)
    assert evidence.forget_old(now=NOW) == 0, "0 is for ever"
    knob("PDCP_KEEP_EVIDENCE_DAYS", 1)
    assert evidence.forget_old(now=NOW, budget=Budget()) == 2
    assert [row.room for row in rows()] == [row.room for row in RoomLookup.objects.using(TRAFFIC).all()] == [2]
    assert evidence.forget_old(now=NOW) == 0


def test_rungs_are_counted_and_timed_whether_they_are_kept_or_not(knob):
    knob("PDCP_EVIDENCE_SHARE", 0.0)
    before = Scrape.here([*REPORTED_RUNGS.samples(), *RUNG_SECONDS.samples()])
    said = [
        item(1, took_seconds=0.3),
        item(2, took_seconds=0.7),
        item(3),
        item(4, "verified", "damaged", took_seconds=1),
    ]
    evidence.report_evidence("w", said, NOW)
    grown = Scrape.here([*REPORTED_RUNGS.samples(), *RUNG_SECONDS.samples()]).grown_since(before)
    assert grown["pdcp_reported_rungs_total{result=passed,rung=resolved}"] == 3
    assert grown["pdcp_reported_rungs_total{result=failed,rung=verified}"] == 1
    assert grown["pdcp_reported_rung_seconds_count{rung=resolved}"] == 2
    assert "pdcp_reported_rung_seconds_count{rung=verified}" not in grown, "how long until a failure is another number"


def test_look_ups_are_stored_by_who_leads_and_answers_that_never_came_too():
    store = RoomStore(TRAFFIC)
    store.keep_lookups(0, [(1, 7, NOW, "10.0.0.9", NOW + 2), (1, 2**63 - 1, NOW, "2001:db8::9", None)])
    kept = RoomLookup.objects.using(TRAFFIC).order_by("room").values_list("room", "asked_at", "asked_by", "answered_at")
    assert list(kept) == [(7, NOW, "10.0.0.9", NOW + 2), (2**63 - 1, NOW, "2001:db8::9", None)]
    with pytest.raises(FencedOut):
        store.keep_lookups(-1, [(1, 8, NOW, "10.0.0.9", None)])


def in_batch(number: int, *, run: str = "run-of-w1", source: str = "w", items: list | None = None) -> evidence.Kept:
    batch = {"run": run, "number": number}
    return evidence.report_evidence(source, items or [item(took_seconds=0.5)], NOW + number, batch=batch)


def test_a_batch_that_comes_again_or_late_is_kept_once_and_counted_once():
    def counted() -> tuple[float, float]:
        said = Scrape.here([*REPORTED_RUNGS.samples(), *RUNG_SECONDS.samples()])
        return (
            said.value("pdcp_reported_rungs_total", rung="resolved", result="passed"),
            said.value("pdcp_reported_rung_seconds_count", rung="resolved"),
        )

    before = counted()
    assert in_batch(1) == evidence.Kept(1, 0)
    assert in_batch(1) == evidence.Kept(1, 0, repeated=True)
    assert in_batch(3) == evidence.Kept(1, 0)
    assert in_batch(2) == evidence.Kept(0, 0, repeated=True), (
        "it came late: nobody sends one before the other was taken"
    )
    # Another run, or another worker that made up the same word, has batches of its own.
    assert not in_batch(1, run="run-of-w2").repeated and not in_batch(1, source="v").repeated
    assert len(rows()) == 4
    assert [after - was for after, was in zip(counted(), before, strict=True)] == [4, 4]
    assert not evidence.report_evidence("w", [item()], NOW).repeated


def test_a_batch_that_could_not_be_stored_is_new_when_it_comes_again(monkeypatch):
    def fails(*_):
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(evidence, "store", fails)
        with pytest.raises(OSError, match="the disk is full"):
            in_batch(1)
    assert in_batch(1) == evidence.Kept(1, 0) and len(rows()) == 1


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"run": "short", "number": 1}, "batch.run must be 8 to 32"),
        ({"run": "with space", "number": 1}, "batch.run must be"),
        ({"run": "long-enough", "number": 0}, "batch.number must be a whole number from 1"),
        ({"run": "long-enough", "number": True}, "batch.number must be"),
        ({"run": "long-enough", "number": 2**60}, "batch.number must be"),
        ({}, "batch.run must be"),
    ],
)
def test_a_batch_that_cannot_be_told_from_others_is_refused(batch, said):
    with pytest.raises(Refused, match=said):
        evidence.report_evidence("w", [item()], NOW, batch=batch)
    assert rows() == []


def test_runs_of_which_nothing_was_heard_for_as_long_as_evidence_is_kept_are_forgotten_and_so_are_too_many(
    knob, monkeypatch
):
    knob("PDCP_KEEP_EVIDENCE_DAYS", 1)
    for number in range(1, 5):
        evidence.report_evidence("w", [item()], NOW + number, batch={"run": f"run-number-{number}", "number": 1})
    evidence.forget_old(now=NOW + DAY + 2.5)
    left = ReportBatch.objects.using(TRAFFIC).order_by("received_at").values_list("run", flat=True)
    assert list(left) == ["run-number-3", "run-number-4"]
    monkeypatch.setattr(evidence, "MOST_RUNS", 1)
    evidence.forget_old(now=NOW + 5)
    assert list(left.all()) == ["run-number-4"]
