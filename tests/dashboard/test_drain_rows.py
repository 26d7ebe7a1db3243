"""What a drain says in short, step by step, as bars and as ranks: pure functions of its row."""

import doctest
from dataclasses import replace

import pytest

from controlplane.domain.drain import OPEN, Progress, Rooms
from controlplane.domain.obstacles import NEXT, Obstacle, obstacle
from controlplane.domain.routable import Reason, Verdict
from controlplane.domain.topology import Topology
from controlplane.domain.trail import Point, Trail
from controlplane.queries.draining import Detail, SelectorRow
from controlplane.queries.drains import DrainRow
from controlplane.queries.routable import GroupVerdict, RoutableRow
from controlplane.queries.rows import InstanceRow, LaunchRow
from dashboard.presenters import drains as say
from dashboard.presenters import gateways, trail
from dashboard.presenters.reach import MOST_GROUPS, reach
from dashboard.presenters.states import STATES
from dashboard.presenters.trail import chart_of

ROW = DrainRow(
    id=5,
    instance="prefill-b",
    group=1,
    launch=12,
    current_launch=12,
    progress="waiting",
    actor="anna",
    reason="",
    started_at=1000.0,
    deadline_at=None,
    min_ready=0,
    cordon_revision=18240,
    blockers=(),
    readings=(),
    engine_problem="",
    waiting_for=(),
    stopped_at=None,
    checked_at=1001.0,
    empty_at=None,
    ended_at=None,
    ended_reason="",
)


def test_every_obstacle_has_a_word_with_a_colour():
    assert set(say.WORDS) == set(NEXT)
    assert set(say.WORDS.values()) <= set(STATES)


@pytest.mark.parametrize("progress", list(Progress))
def test_every_progress_has_a_short_verdict_and_steps(progress):
    ended = progress not in OPEN
    row = replace(ROW, progress=progress, ended_at=1100.0 if ended else None, ended_reason="so" if ended else "")
    assert say.short(row).endswith(".") and say.why(row).endswith(".")
    steps = say.steps(row, Detail())
    assert steps[0].title == "Cordoned"
    assert ("safe_to_delete: yes" in steps[-1].said) == (progress == "drained")


def test_a_drain_of_another_launch_than_the_current_one_is_not_simply_drained():
    assert say.short(replace(ROW, progress="drained", current_launch=13)) == "Drained, but not what runs now."


def test_steps_count_who_has_stopped_and_what_has_ended():
    silent = obstacle("silent gw-2", "gateway gw-2 is silent")
    detail = Detail(
        (
            SelectorRow("gateway", "gw-1", None, 18274, 1000.0),
            SelectorRow("gateway", "gw-2", silent, 18231, 900.0),
        )
    )
    row = replace(ROW, trail=Trail(3.0, (Point(1000.0, 14), Point(1003.0, 2))))
    told = [(step.title, step.more, step.said, step.cut) for step in say.steps(row, detail)]
    assert told[1] == ("Gateways know", "1 of 2", "waiting for gw-2", True)
    assert told[2] == ("Requests end", "12 of 14", "waiting for 2", True)
    bound = replace(ROW, trail=Trail(3.0, (Point(1000.0, 0),)), rooms=Rooms(until=1300.0))
    assert say.steps(bound, detail)[2].said == "waiting for rooms that are bound to it"
    unknown = replace(ROW, trail=Trail(3.0, (Point(1000.0, None),)))
    assert say.steps(unknown, detail)[2].said == "nobody says how much is open"
    choices = say.choices(row, detail)
    assert [(one.word, one.signed) for one in choices] == [("current", "+34"), ("silent", "−9")]


def test_what_blocks_is_said_in_short_and_what_is_unknown_is_named_as_such():
    keys = {"silent gw-2": "gateway gw-2 is silent", "busy the engine 1": "the engine still has requests on dp1"}
    obstacles = tuple(obstacle(key, said) for key, said in keys.items())
    row = replace(ROW, blockers=(*keys.values(), "a third"), obstacles=obstacles)
    assert say.why(row) == (
        "Gateway gw-2 is silent; the engine still has requests on dp1. 1 more thing in the way. What nobody can say blocks."
    )
    assert say.observed(row) == ("blocked", "by 3")
    first, second = say.blockers(row, Detail())
    assert (first.head, first.name, first.tail, first.tone) == ("Gateway ", "gw-2", " is silent", "warn")
    assert (second.word, second.name) == ("busy", "")
    late = replace(row, obstacles=(Obstacle("late", "a room", "wait"),), rooms=Rooms(late_until=1200.0))
    assert say.blockers(late, Detail())[0].until == 1200.0


def test_bars_stay_in_their_box_show_gaps_and_leave_room_for_what_expires():
    counted = Trail(3.0, tuple(Point(1000.0 + 3 * n, None if n == 4 else 14 - n) for n in range(10)))
    chart = chart_of(counted, since=1000.0, now=1030.0, until=1300.0)
    assert chart is not None and chart.most == 14 and (chart.first, chart.last) == (14, 5) and chart.gaps
    assert [bar.height for bar in chart.bars][:2] == [56, 52] and not chart.bars[4].known
    assert all(float(bar.x[:-1]) + float(bar.width[:-1]) <= 50.3 for bar in chart.bars)
    ended = chart_of(counted, since=1000.0, now=1030.0, until=None)
    assert ended is not None and ended.now_x == "100.0%"
    assert all(float(bar.x[:-1]) + float(bar.width[:-1]) <= 100.01 for bar in ended.bars)


def verdict(routable: bool) -> Verdict:
    return Verdict(routable, (Reason("health", "lost_rank", "a rank is gone", blocks=not routable),))


def instance(topology: Topology, *, missing: int = 0) -> RoutableRow:
    launch = LaunchRow(12, "current", topology, None, {}, 0.0, 1.0, False, None, "", topology.size - missing)
    size = topology.size // topology.dp
    groups = tuple(
        GroupVerdict(dp, size - (missing if dp == 0 else 0), size, size, "enabled", verdict(dp != 0 or not missing))
        for dp in range(topology.dp)
    )
    row = InstanceRow(1, "prefill-b", "prefill", "enabled", None, None, 0.0, None, launch)
    return RoutableRow(row, verdict(True), groups)


def test_ranks_in_reach_are_drawn_beside_the_others():
    found = reach(instance(Topology(4, 1, 8, 1), missing=1), 1, drained=False)
    assert found is not None and (found.inside, found.total, found.launch, found.micro) == (8, 32, 12, False)
    assert [line.cells[0].tone for line in found.lines] == ["warn", "want", "ok", "ok"]
    assert [cell.void for cell in found.lines[0].cells] == [False] * 7 + [True]
    assert "dp0 not routable, 7 of 8 ranks registered; dp1 draining, 8 of 8" in found.said
    whole = reach(instance(Topology(4, 1, 8, 1)), None, drained=True)
    assert whole is not None and whole.inside == 32 and {line.cells[0].icon for line in whole.lines} == {"drained"}


def test_a_large_instance_is_cut_and_says_so_but_shows_the_group_in_question():
    found = reach(instance(Topology(64, 1, 64, 1)), 40, drained=False)
    assert found is not None and found.micro and len(found.lines) == MOST_GROUPS and found.left_out == 48
    assert found.lines[-1].name == "dp40" and found.lines[-1].more == 44
    nobody = RoutableRow(InstanceRow(1, "p", "decode", "enabled", None, None, 0.0, None), verdict(True), ())
    assert reach(nobody, None, drained=False) is None


@pytest.mark.parametrize("module", [say, trail, gateways])
def test_the_examples_are_true(module):
    assert doctest.testmod(module).failed == 0
