"""What gateways and workers report: last words, turns, sums; bounded, and safe when many speak at once."""

import threading

import pytest
from django.db import connections

from controlplane.commands import gateways, instances, reports
from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import after, head
from controlplane.models import Breaker, Gateway, OpenRooms, OutcomeCount
from controlplane.queries import gateways as queries

WHO = {"actor": "anna", "reason": "a test"}
NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    for name in ("p", "q", "d"):
        instances.add(name, role="decode" if name == "d" else "prefill", **WHO)
    gateways.join("g", "", 15, NOW)


def turns() -> list[tuple]:
    events = [event for event in after(0) if event.kind == "breaker.turned"]
    return [(e.instance, e.data["dp"], e.data["before"], e.data["after"], e.data["reason"]) for e in events]


def breaker(state: str, instance: str = "p", **more) -> dict:
    return {"instance": instance, "state": state, **more}


def test_a_breaker_is_an_event_when_it_turns_and_at_no_other_time():
    assert gateways.report_breakers("g", [breaker("closed")], NOW) == reports.Reported(1, 0)
    assert not Breaker.objects.using(FACTS).exists(), "no row is closed"
    assert gateways.report_breakers("g", [breaker("open", age_seconds=4, reason="3 × 500")], NOW).turned == 1
    row = Breaker.objects.using(FACTS).get()
    assert (row.state, row.since, row.reported_at) == ("open", NOW - 4, NOW)
    here = head()
    assert gateways.report_breakers("g", [breaker("open", age_seconds=9)], NOW + 5).turned == 0
    row = Breaker.objects.using(FACTS).get()
    assert (row.since, row.reported_at, head()) == (NOW - 4, NOW + 5, here)
    gateways.report_breakers("g", [breaker("half_open")], NOW + 6)
    gateways.report_breakers("g", [breaker("closed")], NOW + 7)
    assert turns() == [
        ("p", None, "closed", "open", "3 × 500"),
        ("p", None, "open", "half_open", ""),
        ("p", None, "half_open", "closed", ""),
    ]


def test_groups_and_gateways_have_breakers_of_their_own():
    gateways.join("h", "", 15, NOW)
    gateways.report_breakers("g", [breaker("open", dp=0), breaker("closed", dp=1), breaker("open", "q")], NOW)
    gateways.report_breakers("h", [breaker("open")], NOW)
    rows = Breaker.objects.using(FACTS).order_by("gateway", "instance", "group")
    assert list(rows.values_list("gateway", "instance", "group")) == [("g", "p", 0), ("g", "q", -1), ("h", "p", -1)]
    assert [queries.gateway(name).open_breakers for name in "gh"] == [2, 1]


def test_what_nobody_knows_is_named_and_not_kept():
    said = gateways.report_breakers("g", [breaker("open"), breaker("open", "ghost")], NOW)
    assert said == reports.Reported(1, 1, ("ghost",))
    said = gateways.report_open_rooms("worker", "w", [{"instance": "ghost", "open_rooms": 1, "age_seconds": 0}], NOW)
    assert said == reports.Reported(0, 0, ("ghost",))
    said = gateways.report_outcomes("g", [{"prefill": "ghost", "decode": "d", "outcome": "ok", "count": 1}], NOW)
    assert said.kept == 0 and said.unknown == ("ghost",)


def rooms(count: int, age: float = 0.0, **more) -> dict:
    return {"instance": "p", "dp": 0, "open_rooms": count, "age_seconds": age, **more}


def test_open_rooms_are_the_last_word_of_each_witness_with_its_age_by_our_clock():
    gateways.report_open_rooms("gateway", "g", [rooms(3, 2.0), {**rooms(5), "dp": None}], NOW)
    gateways.report_open_rooms("worker", "w", [rooms(1, launch_token="t1")], NOW)
    found = queries.open_rooms("p")
    assert [(r.kind, r.source, r.group, r.open_rooms, r.taken_at, r.launch_token) for r in found] == [
        ("gateway", "g", None, 5, NOW, ""),
        ("gateway", "g", 0, 3, NOW - 2.0, ""),
        ("worker", "w", 0, 1, NOW, "t1"),
    ]
    # A report that was overtaken on its way changes nothing.
    gateways.report_open_rooms("gateway", "g", [rooms(0)], NOW + 1)
    gateways.report_open_rooms("gateway", "g", [rooms(9, 5.0)], NOW + 2)
    row = OpenRooms.objects.using(FACTS).get(source="g", group=0)
    assert (row.open_rooms, row.taken_at, row.received_at) == (0, NOW + 1, NOW + 1)
    assert not any(event.kind.startswith("open") for event in after(0)), "counts are no events"


def test_outcomes_add_up_a_minute_and_a_pair_at_a_time():
    ok = {"prefill": "p", "decode": "d", "outcome": "ok", "count": 2}
    gateways.report_outcomes("g", [ok, ok, {**ok, "outcome": "cut"}, {**ok, "count": 0, "outcome": "none"}], NOW)
    gateways.report_outcomes("g", [ok, {**ok, "age_seconds": 61}], NOW)
    minute = int(NOW // 60)
    assert [(r.minute, r.prefill, r.decode, r.outcome, r.count) for r in queries.outcomes(since_minute=0)] == [
        (minute, "p", "d", "cut", 2),
        (minute, "p", "d", "ok", 6),
        (minute - 2, "p", "d", "ok", 2),
    ]
    assert queries.outcomes(since_minute=minute, gateway="h") == ()


MALFORMED = [
    (gateways.report_breakers, [{"state": "open"}], "item 0: instance is missing"),
    (gateways.report_breakers, [breaker("open"), breaker("ajar")], "item 1: state must be one of"),
    (gateways.report_breakers, [breaker("open", dp=-1)], "item 0: dp must be a whole number"),
    (gateways.report_breakers, [breaker("open", dp=True)], "item 0: dp must be a whole number"),
    (gateways.report_breakers, [breaker("open", age_seconds=-1)], "age_seconds must be from 0"),
    (gateways.report_breakers, [breaker("open", age_seconds=float("inf"))], "age_seconds must be a number"),
    (gateways.report_breakers, [breaker("open", reason="x" * 501)], "reason must be text of at most 500"),
    (gateways.report_breakers, [breaker("open", reason="a\x00b")], "reason must be text"),
    (gateways.report_breakers, ["open"], "item 0: it must be an object"),
    (gateways.report_breakers, {"p": "open"}, "a report is a list"),
    (gateways.report_breakers, [breaker("open")] * 2001, "at most 2000 items, not 2001"),
    (gateways.report_outcomes, [{"outcome": "OK", "count": 1}], "outcome must be"),
    (gateways.report_outcomes, [{"outcome": "ok", "count": -1}], "count must be a whole number"),
    (gateways.report_outcomes, [{"outcome": "ok", "count": 2**31}], "count must be a whole number"),
]


def test_malformed_reports_are_refused_as_a_whole_with_the_item_that_is_wrong():
    for report, items, sentence in MALFORMED:
        with pytest.raises(Refused, match=sentence):
            report("g", items, NOW)
    for kind, source, items, sentence in (
        ("gateway", "g", [{"instance": "p", "open_rooms": 1}], "age_seconds is missing"),
        ("gateway", "g", [rooms(2**31)], "open_rooms must be a whole number"),
        ("operator", "g", [], "reported by a gateway or a worker"),
        ("worker", "", [], "the source must be named"),
        ("worker", "x" * 129, [], "the source must be named"),
        ("worker", "a\nb", [], "the source must be named"),
    ):
        with pytest.raises(Refused, match=sentence):
            gateways.report_open_rooms(kind, source, items, NOW)
    assert not Breaker.objects.using(FACTS).exists() and not OpenRooms.objects.using(FACTS).exists()
    assert not OutcomeCount.objects.using(TRAFFIC).exists()


def test_reports_of_two_thousand_items_fit():
    many = [{**rooms(dp % 7), "dp": dp} for dp in range(2000)]
    assert gateways.report_open_rooms("gateway", "g", many, NOW).kept == 2000
    assert gateways.report_open_rooms("gateway", "g", many, NOW + 1).kept == 2000
    assert OpenRooms.objects.using(FACTS).count() == 2000


def test_sources_are_bounded(monkeypatch):
    monkeypatch.setattr(reports, "MAX_ROWS", 2)
    for source in ("a", "b"):
        gateways.report_open_rooms("worker", source, [rooms(1)], NOW)
    with pytest.raises(Refused, match="too many sources"):
        gateways.report_open_rooms("worker", "c", [rooms(1)], NOW)
    assert gateways.report_open_rooms("worker", "b", [rooms(0)], NOW + 1).kept == 1
    assert gateways.report_open_rooms("gateway", "g", [rooms(1)], NOW).kept == 1


def test_old_reports_are_forgotten():
    gateways.report_open_rooms("worker", "w", [rooms(1)], NOW - 2 * 86_400)
    gateways.report_open_rooms("worker", "v", [rooms(1)], NOW)
    gateways.report_outcomes("g", [{"outcome": "ok", "count": 1}], NOW - 8 * 86_400)
    gateways.report_outcomes("g", [{"outcome": "ok", "count": 1}], NOW)
    gateways.join("old", "", 15, NOW - 9 * 86_400)
    gateways.leave("old", now=NOW - 8 * 86_400)
    assert reports.forget_old(now=NOW) == 3
    assert OpenRooms.objects.using(FACTS).get().source == "v" and OutcomeCount.objects.using(TRAFFIC).count() == 1
    assert [row.name for row in Gateway.objects.using(FACTS).all()] == ["g"]


def test_reports_that_meet_lose_nothing():
    gateways.join("h", "", 15, NOW)
    problems: list[BaseException] = []

    def report(name: str, number: int) -> None:
        try:
            for turn in range(5):
                at = NOW + turn
                order = [0, 1, 2] if number % 2 else [2, 1, 0]
                gateways.report_open_rooms("gateway", name, [{**rooms(turn), "dp": dp} for dp in order], at)
                gateways.report_open_rooms("worker", "w", [{**rooms(turn), "dp": dp} for dp in order], at)
                gateways.report_outcomes(name, [{"prefill": "p", "outcome": "ok", "count": 1}], NOW)
                gateways.report_breakers(name, [breaker("open" if turn % 2 else "closed")], at)
        except BaseException as problem:
            problems.append(problem)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=report, args=("gh"[n % 2], n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert sum(row.count for row in queries.outcomes(since_minute=0)) == 20
    assert {row.open_rooms for row in queries.open_rooms("p")} == {4} and len(queries.open_rooms("p")) == 9
    # Every turn is told from what it was before.
    for gateway in "gh":
        own = [e.data for e in after(0) if e.kind == "breaker.turned" and e.data["gateway"] == gateway]
        assert [data["before"] for data in own] == ["closed", *[data["after"] for data in own]][: len(own)]


def test_a_gateway_is_heard_from_now_also_after_the_clock_was_set_back():
    def heard_at(at: float) -> float:
        reports.report_breakers("g", [], at)
        return Gateway.objects.using(FACTS).get(name="g").seen_at

    assert heard_at(NOW + 5) == NOW + 5
    assert heard_at(NOW + 2) == NOW + 5, "an older word, or another host whose clock is a little behind"
    assert heard_at(NOW - 3600) == NOW - 3600, "else it would live for an hour after its last word"
