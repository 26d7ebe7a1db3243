"""Ranks have pages of their own, and actions that say when they concern more than the rank."""

import pytest

from controlplane.admin import rank_rows
from controlplane.domain.topology import Topology
from controlplane.models import Attempt, Drain, GroupIntent, Request
from tests.controlplane.queries.world import World

from .page import Page, counted_queries
from .test_acts import ask, confirm, do

RANKS = "/admin/controlplane/rank/"
TP1 = "prefill-a:1:dp1.cp0.tp1.pp0"


@pytest.fixture
def world(people) -> World:
    """prefill-a: two DP groups of two ranks, ports 9000 to 9003; prefill-b: one rank, port 9100."""
    world = World("prefill-a")
    world.launch(Topology(2, 1, 2, 1), first_port=9000)
    World("prefill-b").launch(Topology(1, 1, 1, 1), first_port=9100)
    return world


def ranks(people, query: str = "", role: str = "viewer") -> Page:
    return Page(people[role].get(f"{RANKS}{query}"))


def test_ranks_are_listed_by_the_names_that_people_use(people, world):
    page = ranks(people)
    assert page.status == 200 and page.inline == []
    for words in ("dp1 tp1", "10.0.0.1:9003", "prefill-b", "1 to 5", "up"):
        assert words in page.text
    assert page.links["dp1 tp1"] == f"{RANKS}prefill-a/1/dp1.cp0.tp1.pp0/"
    assert Page(people["admin"].get("/admin/")).links["Ranks"] == RANKS


FILTERS = {
    "?instance=fill-b": {9100},
    "?dp=1": {9002, 9003},
    "?ip=10.0.0.1:9001": {9001},
    "?ip=10.0.0.2": set(),
    "?contact=refused": set(),
    "?launch=1&instance=prefill-a": {9000, 9001, 9002, 9003},
    "?instance=ghost": set(),
}


def test_filters_stand_in_the_address(people, world):
    for query, ports in FILTERS.items():
        text = ranks(people, query).text
        assert {port for port in (9000, 9001, 9002, 9003, 9100) if f":{port}" in text} == ports, query


def test_who_left_is_listed_apart_with_the_reason(people, world):
    world.refuse(9003)
    assert ":9003" not in ranks(people).text
    left = ranks(people, "?state=left")
    assert "10.0.0.1:9003 left" in left.text and ":9002" not in left.text
    assert ":9003" in ranks(people, "?state=all").text
    own = Page(people["operator"].get(left.links["dp1 tp1"]))
    assert "Re-admit" in own.links and "Drain" not in own.links


def test_odd_filters_are_answered_with_a_page(people, world):
    for query in (
        "?p=0",
        "?p=x",
        "?p=9999",
        "?dp=-1",
        "?dp=1e9",
        "?launch=99999999999",
        "?ip=%00",
        "?ip=[::1]:90:1",
        "?instance=%00",
    ):
        assert ranks(people, query).status == 200, query
    for path in (
        "prefill-a/1/dp9.cp0.tp0.pp0/",
        "ghost/1/dp0.cp0.tp0.pp0/",
        "prefill-a/7/dp0.cp0.tp0.pp0/",
        "prefill-a/1/x/",
    ):
        assert people["viewer"].get(f"{RANKS}{path}").status_code == 404, path


def test_long_lists_are_paged_without_counting(people, world, monkeypatch):
    monkeypatch.setattr(rank_rows, "PAGE", 2)
    first = ranks(people, "?contact=up")
    assert "1 to 2" in first.text and first.links["Further"] == "?contact=up&p=2"
    last = ranks(people, "?contact=up&p=3")
    assert "5 to 5" in last.text and "Further" not in last.links and last.links["Before"] == "?contact=up&p=2"
    monkeypatch.setattr(rank_rows, "LAST_PAGE", 2)
    assert "There may be more" in ranks(people, "?p=2").text


def test_the_number_of_queries_does_not_grow_with_the_ranks(people, world):
    with counted_queries() as few:
        ranks(people)
    World("prefill-c").launch(Topology(4, 1, 4, 1), first_port=9200)
    with counted_queries() as more:
        ranks(people)
    assert len(few) == len(more) <= 10, more
    assert not [sql for sql in more if "COUNT(" in sql.upper()]
    with counted_queries() as detail:
        assert people["viewer"].get(f"{RANKS}prefill-a/1/dp0.cp0.tp0.pp0/").status_code == 200
    assert len(detail) <= 10, detail
    with counted_queries() as one:
        people["operator"].get("/admin/act/drain/", {"on": TP1})
    with counted_queries() as four:
        people["operator"].get("/admin/act/evict/", {"on": [f"prefill-c:1:dp{n}.cp0.tp0.pp0" for n in range(4)]})
    assert max(len(one), len(four)) <= 12, four


def test_an_action_on_a_rank_that_cannot_be_spared_is_one_on_its_dp_group_and_says_so(people, world):
    operator = people["operator"]
    data = {"action": "drain", "_selected_action": [TP1, "prefill-a:1:dp1.cp0.tp0.pp0"]}
    picked = operator.post(f"{RANKS}?dp=1", data)
    page = Page(operator.get(picked["Location"]))
    assert "Drain: DP group dp1 of prefill-a" in page.text
    assert (
        "A single rank cannot be spared: dp1 cp0 tp1 pp0, dp1 cp0 tp0 pp0 of prefill-a stands for all of DP group dp1."
        in page.text
    )
    assert "2 registered" in page.text and page.fields["on"] == ["prefill-a:dp1"]
    assert page.fields["back"] == [f"{RANKS}?dp=1"]
    plan = Page(operator.post("/admin/act/drain/", page.form(reason="a disk fails", min_ready=0, step="plan")))
    assert "2 routable prefill instances with 3 DP groups, 2 with 2 DP groups remain" in plan.text
    assert confirm(operator, "drain", plan).status_code == 302
    drain = Drain.objects.get()
    assert (drain.instance, drain.group, drain.reason) == ("prefill-a", 1, "a disk fails")
    assert GroupIntent.objects.get().intent == "draining"
    assert Attempt.objects.exclude(action="sign-in").get().target == "prefill-a dp1"
    for act, answers, left in (
        ("cancel-drain", {"to": "cordoned"}, "cordoned"),
        ("uncordon", {}, None),
        ("cordon", {}, "cordoned"),
    ):
        do(operator, act, TP1, **answers)
        assert GroupIntent.objects.values_list("intent", flat=True).first() == left


def test_what_concerns_a_single_rank_is_asked_for_that_rank(people, world):
    for kind in ("evict", "reregister", "readmit"):
        assert do(people["operator"], kind, TP1).status_code == 302
        made = Request.objects.get(kind=kind)
        assert (made.instance, made.slot) == ("prefill-a", "1.0.1.0")
    assert set(Attempt.objects.exclude(action="sign-in").values_list("target", flat=True)) == {
        "prefill-a dp1.cp0.tp1.pp0"
    }


def test_a_rank_that_has_gone_since_it_was_shown_is_not_evicted(people, world):
    shown = ask(people["operator"], "evict", TP1)
    assert "launch 1 at 10.0.0.1:9003" in shown.text
    world.refuse(9003)
    late = Page(confirm(people["operator"], "evict", shown))
    assert late.status == 412
    assert "rank: launch 1 at 10.0.0.1:9003 → nobody sits there any more" in late.text
    # And whoever insists is told so by the command.
    assert confirm(people["operator"], "evict", late).status_code == 302
    assert (
        "is not registered in launch 1 of prefill-a"
        in ranks(people, role="operator").text + Page(people["operator"].get("/admin/")).text
    )
    assert Request.objects.count() == 0


def test_what_is_selected_wrongly_does_nothing(people, world):
    for data in (
        {"action": "drain"},
        {"action": ""},
        {"action": "retire", "_selected_action": TP1},
        {"action": "drain", "_selected_action": "x y"},
    ):
        assert people["operator"].post(RANKS, data)["Location"] == RANKS
