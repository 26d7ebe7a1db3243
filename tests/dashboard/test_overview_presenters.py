"""What the overview is made of: strips, words and links, from values alone."""

import doctest
from urllib.parse import urlsplit

import pytest

import tests.support.inside  # noqa: F401  isort: skip
from django.urls import resolve

from controlplane.domain.attention import Concern, Harm, Place
from controlplane.queries.attention import Attention
from controlplane.queries.strips import Marks
from dashboard.presenters import attention, counters, instances, search, strip
from dashboard.presenters.states import STATES


@pytest.mark.parametrize("module", [attention, counters, instances, search, strip])
def test_the_examples_hold(module):
    assert doctest.testmod(module).failed == 0


def test_a_strip_is_one_path_for_each_kind_of_mark_with_gaps_between_dp_groups():
    groups = [Marks(0, ("ok",) * 4), Marks(1, ("ok", "ok", "miss", "ok"))]
    drawn = strip.strip_of(groups, routable={0: True, 1: True}, intents={})
    assert drawn.paths == (("ok", "M0 8h15M20 8h7M32 8h3"), ("miss", "M28.5 5.5h2v5h-2z"))
    assert (drawn.width, drawn.label) == (35, "7 routable, 1 missing")


def test_what_somebody_wanted_away_is_no_trouble_and_what_is_not_routable_is_not_green():
    groups = [Marks(0, ("ok", "down")), Marks(1, ("ok", "miss")), Marks(2, ("ok", "ok"))]
    drawn = strip.strip_of(groups, routable={0: False, 1: True, 2: True}, intents={1: "draining", 2: "cordoned"})
    assert drawn.label == "1 there, not routable, 1 down, 2 draining, 2 cordoned"
    assert [kind for kind, _ in drawn.paths] == ["held", "down", "drain", "cordon"]


def test_large_instances_have_one_mark_a_dp_group_and_neighbours_share_one_beyond_sixty_four():
    many = [Marks(group, ("down" if group == 100 else "ok",), 8) for group in range(256)]
    drawn = strip.strip_of(many, routable=dict.fromkeys(range(256), True), intents={})
    assert drawn.label == "255 routable, 1 down (DP groups of 8 ranks, the worst of each)"
    # 64 marks of which one holds the group that is down.
    assert (drawn.width, drawn.tight) == (64 * 3 - 1, True)
    assert dict(drawn.paths)["down"] == "M75 8h2"
    assert all(len(course) < 2000 for _, course in drawn.paths)


def test_nothing_registered_is_no_strip():
    assert strip.strip_of([], routable={}, intents={}) == strip.NOTHING


def concern(state: str, at: Place) -> Concern:
    return Concern(harm=Harm.DOWN, state=state, name="x", at=at, what="w", next="n", step="s", to=at)


def test_every_place_of_a_concern_has_a_way_there_and_names_are_escaped():
    for kind in attention.PLACES:
        key = {"drain": "7", "pair": "p/d"}.get(kind, "prefill-a")
        assert resolve(urlsplit(attention.url_of(Place(kind, key))).path).func is not None
    assert attention.url_of(Place("gateway", "a/b")) == "/gateways/a%2Fb/"
    assert attention.url_of(Place("pair", "p/d")) == "/pairs/?prefill=p&decode=d"


def test_only_the_first_is_said_out_loud_and_only_when_it_is_bad():
    found = (concern("down", Place("events")), concern("down", Place("events")))
    view = attention.attention_view(Attention(found, 5, {"down": 5}))
    assert [one.kind for one in view.items] == ["solid", ""]
    assert (view.more, view.worst, view.states) == (3, "bad", (("down", 5),))
    mild = attention.attention_view(Attention((concern("stalled", Place("events")),), 1, {"stalled": 1}))
    assert [one.kind for one in mild.items] == [""]


def test_every_state_that_a_row_or_a_concern_can_have_is_in_the_table():
    seen = "up degraded down filling unproven flushing missing not_observed open live conflict"
    told = "stalled blocked silent away mismatch incompatible overdue refused stopped failing"
    words = f"{seen} {told} enabled cordoned draining retired"
    assert [word for word in words.split() if word not in STATES] == []
