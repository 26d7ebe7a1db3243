"""What blocks a drain is said with what can be done about it; and how much was open, as a series that stays short."""

import doctest

import pytest

from controlplane.domain import obstacles as about
from controlplane.domain import trail as trails
from controlplane.domain.admission import Cordon, Gateway, Router, Selectors, look
from controlplane.domain.obstacles import NEXT, obstacle, obstacles
from controlplane.domain.trail import MOST, STEP_SECONDS, Point, Trail, extend
from controlplane.domain.witness import Reading, Watch, hear, open_in_all, statements

CORDON = Cordon("ledger", 50, 1000.0, 1)


def test_everybody_who_may_still_send_is_named_with_the_next_step():
    gateways = [Gateway("quiet", 0.0, 15.0), Gateway("late", 1000.0, 15.0, "ledger", 40)]
    routers = [
        Router("gone", present=True, answers=False, checked_at=1000.0),
        Router("whole", present=True, answers=True, checked_at=1000.0),
        Router("unseen", present=False, answers=True, checked_at=900.0),
    ]
    said = look(CORDON, Selectors("ledger", 60, gateways, routers), now=1001.0)
    found = {one.name: one for one in obstacles({**said.admitting, **said.unsure})}
    assert {name: (one.kind, one.about) for name, one in found.items()} == {
        "quiet": ("silent_gateway", "gateway"),
        "late": ("behind", "gateway"),
        "gone": ("router_away", "router"),
        "whole": ("router_whole", "router"),
        "unseen": ("router_unseen", "router"),
    }
    assert all(name in one.next for name, one in found.items() if name != "unseen")
    of_all = look(Cordon("ledger", 50, 1000.0), Selectors("ledger", 60, (), routers[1:2]), now=1001.0)
    assert [one.kind for one in obstacles(of_all.admitting)] == ["router_holds"]
    nobody = look(CORDON, Selectors("ledger", 60), now=1001.0)
    assert [one.kind for one in obstacles(nobody.unsure)] == ["no_selector"]


def test_what_witnesses_say_or_do_not_say_is_told_apart():
    readings = [
        Reading("engine", "", 0, 1000.0, "a", 3),
        Reading("engine", "", 1, 1000.0, "a", None),
        Reading("engine", "", 2, 1000.0, "a", 0),
    ]
    said = statements(range(4), readings, Watch(engine=True), now=1001.0)
    assert [(one.dp, one.word, one.name) for one in said] == [
        (0, "busy", "the engine"),
        (1, "vague", "the engine"),
        (2, "zero", "the engine"),
        (3, "silent", "the engine"),
    ]
    heard = hear(said, since=900.0, zeros={})
    kinds = [one.kind for one in obstacles(heard.busy | heard.unknown | heard.pending)]
    assert kinds == ["busy", "silent_witness", "vague", "proof"]
    alone = statements([0], [], Watch(), now=1001.0)
    assert [(one.word, one.name) for one in alone] == [("nobody", "")]
    assert [one.kind for one in obstacles(hear(alone, since=None, zeros={}).unknown)] == ["no_witness"]
    mute = hear(statements([0], [], Watch(gateways=("gw-2",)), now=1001.0), since=None, zeros={})
    assert [(one.kind, one.about, one.name) for one in obstacles(mute.unknown)] == [
        ("silent_witness", "gateway", "gw-2")
    ]


@pytest.mark.parametrize("key", ["restored", "restarted", "topology", "launch", "ranks", "rooms", "late"])
def test_what_stands_alone_has_a_step_of_its_own(key):
    assert obstacle(key, "so").kind in NEXT and obstacle(key, "so").kind != "unknown"


def test_a_key_that_nobody_knows_is_shown_with_its_sentence():
    assert obstacle("made up", "so").sentence == "so" and obstacle("made up", "so").kind == "unknown"


def test_how_much_is_open_counts_each_gateway_and_each_worker_of_a_rank_once():
    def of(kind, source, dp, count):
        return Reading(kind, source, dp, 1000.0, "a", count)

    workers = [of("worker", "tp0", 0, 4), of("worker", "tp1", 0, 5), of("worker", "tp0", 1, 2)]
    assert open_in_all(statements([0, 1], workers, Watch(), now=1000.0)) == 7
    gateways = [of("gateway", "g1", None, 3), of("gateway", "g2", None, 4)]
    assert open_in_all(statements([0, 1], gateways, Watch(gateways=("g1", "g2")), now=1000.0)) == 7
    assert open_in_all(statements([0, 1], gateways[:1], Watch(gateways=("g1", "g2")), now=1000.0)) is None
    assert open_in_all(()) is None


def test_a_trail_stays_short_and_keeps_its_peak_and_its_gaps():
    trail = Trail()
    for second in range(20_000):
        trail = extend(trail, float(second), None if 400 <= second < 9_000 else 7 if second == 9_500 else 1)
    assert len(trail.points) <= MOST and trail.step >= 20_000 / MOST
    assert max(point.open for point in trail.points if point.open is not None) == 7
    assert any(point.open is None for point in trail.points)
    assert trail.points[0].at == 0.0 and trail.points[-1].at > 19_000
    assert Trail.read(trail.data()) == trail
    assert extend(Trail(), 5.0, None) == Trail(STEP_SECONDS, (Point(5.0, None),))


@pytest.mark.parametrize("module", [about, trails])
def test_the_examples_are_true(module):
    assert doctest.testmod(module).failed == 0
