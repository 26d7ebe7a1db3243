"""Rows of events: what they say of a change, what is folded, what is typed to find them. No database."""

import doctest

import pytest

from controlplane.domain.errors import Refused
from controlplane.queries.events import TELL, EventRow
from controlplane.queries.searching import Density
from dashboard.presenters import density, difference, events, fleet_then, palette, sought, turns
from dashboard.presenters.density import drawing
from dashboard.presenters.difference import differences
from dashboard.presenters.events import event_view, event_views
from dashboard.presenters.turns import TURNS

NOW = 1_700_000_000.0


def row(revision: int, kind: str, data=None, *, instance="prefill-a", actor="", reason="") -> EventRow:
    return EventRow(revision, NOW + revision, kind, instance, actor, reason, data or {})


def registered(revision: int, tp: int, **more) -> EventRow:
    data = {"launch": 8, "slot": [0, 0, tp, 0], "ip": "10.0.0.1", "port": 5000 + tp, "previous": None} | more
    return row(revision, "rank.registered", data)


def test_a_run_of_one_kind_is_folded_behind_its_newest_and_says_which_revisions():
    (run,) = event_views([registered(20 - tp, tp) for tp in range(6)])
    assert [view.revision for view in run.shown] == [20] and [view.revision for view in run.folded] == [
        *range(19, 14, -1)
    ]
    assert run.told == "5 more rank.registered, 15 to 19, prefill-a launch 8"


def test_three_of_a_kind_stay_and_so_do_those_of_different_launches():
    assert len(event_views([registered(20 - tp, tp) for tp in range(3)])) == 3
    runs = event_views([registered(20 - tp, tp, launch=tp % 2) for tp in range(6)])
    assert all(not run.folded for run in runs) and len(runs) == 6


def test_what_people_did_is_never_folded_and_neither_is_the_selected_one():
    changed = {"dp": None, "before": "enabled", "after": "cordoned", "version": 2}
    assert len(event_views([row(r, "intent.changed", changed, actor="anna") for r in range(9, 1, -1)])) == 8
    runs = event_views([registered(20 - tp, tp) for tp in range(6)], selected=17)
    assert [view.selected for run in runs for view in run.shown] == [False] * 3 + [True] + [False] * 2


def test_a_row_says_both_sides_who_and_why():
    changed = {"dp": 1, "before": "enabled", "after": "cordoned", "version": 2}
    view = event_view(row(7, "intent.changed", changed, actor="anna", reason="kernel update"))
    assert (view.subject, view.before.text, view.after.text) == ("prefill-a dp1", "enabled", "cordoned")
    assert (view.who, view.why) == ("anna", "kernel update")


def test_a_row_leads_to_the_rank_the_drain_or_the_gateway_that_it_is_about():
    assert event_view(registered(7, 3)).url == "/instances/prefill-a/?rank=dp0.cp0.tp3.pp0"
    started = {"drain": 4, "dp": None, "launch": 8, "deadline_at": None, "min_ready": 0}
    assert event_view(row(7, "drain.started", started)).url == "/drains/4/"
    assert event_view(row(7, "gateway.joined", {"gateway": "gw/1", "url": ""}, instance="")).url == "/gateways/gw%2F1/"


def test_events_of_another_version_are_shown_as_they_are_stored():
    view = event_view(row(7, "intent.changed", {"odd": 1}))
    assert view.after is None and view.why == 'intent.changed {"odd":1}'
    assert event_view(row(8, "moon.landed", {"x": 2})).why == 'moon.landed {"x":2}'


def test_every_kind_that_has_two_sides_is_a_kind_that_is_written():
    assert set(TURNS) <= set(TELL)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"q": "since:tomorrow"}, "is no time"),
        ({"q": "since:25:00"}, "is no time"),
        ({"q": "instance:"}, "needs a value"),
        ({"q": "x" * 401}, "at most 400 characters"),
        ({"q": "a\x00b"}, "at most 400 characters"),
        ({"since": "9999999d"}, "is no time"),
        ({"until": "0001-01-01"}, "is no time"),
    ],
)
def test_what_cannot_be_sought_is_refused_with_a_sentence(given, said):
    with pytest.raises(Refused, match=said):
        sought.read(given, NOW)


def test_an_address_among_the_words_is_no_field():
    assert sought.read({"q": "10.0.0.1:5000 odd:thing"}, NOW).words == "10.0.0.1:5000 odd:thing"


def test_differences_name_the_rank_and_announce_what_they_leave_out():
    launch = {"rows": {}, "claims": {}, "complete": True}
    before = {"launches": {"8": launch}, "intent": "enabled"}
    after = {"launches": {"8": launch | {"rows": {"0.0.3.0": {"ip": "10.0.0.1", "port": 5003}}}}, "intent": "enabled"}
    found = differences(before, after)
    assert [(one.what, one.before, one.after) for one in found.rows] == [
        ("launch 8 dp0 tp3 pp0 ip", None, "10.0.0.1"),
        ("launch 8 dp0 tp3 pp0 port", None, "5003"),
    ]
    assert differences(before, after, most=1).more == 1
    assert [one.after for one in differences(after, before).rows] == [None, None]


def test_a_drawing_marks_the_moment_and_keeps_its_words_inside():
    drawn = drawing(Density(NOW, 10.0, (0, 4, 1), None), NOW + 29)
    assert [bar.height for bar in drawn.bars] == ["24.0", "6.0"] and drawn.total == 5
    assert (drawn.mark, drawn.anchor) == ("96.67%", "end")
    assert drawing(Density(NOW, 10.0, (0,) * 3, None), NOW - 1).mark == ""
    assert 2 <= len(drawing(Density(NOW, 30.0, (1,) * 76, None)).ticks) <= 13


@pytest.mark.parametrize("module", [density, difference, events, fleet_then, palette, sought, turns])
def test_the_examples_hold(module):
    assert doctest.testmod(module).failed == 0
