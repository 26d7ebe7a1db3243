"""Where ranks stand in the grid, what is left out of it, and how the rest is said: no database."""

import doctest
import time
from collections import Counter

import pytest

from controlplane.domain.cells import Cell
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.queries.rows import LaunchRow, RankRow
from dashboard.presenters import cells, gaps, grid, instance_query, launches, rank_table, timeline
from dashboard.presenters.grid import Layout, heads, lines, read_layout, window
from dashboard.presenters.instance_query import Asked
from dashboard.presenters.states import STATES

MOCK = Topology(2, 1, 8, 2)


def test_examples_hold():
    for module in (cells, gaps, grid, instance_query, launches, rank_table, timeline):
        assert doctest.testmod(module).failed == 0, module


def test_every_word_of_a_cell_has_a_look():
    assert set(map(str, Cell)) <= STATES.keys()


def test_every_slot_stands_once_and_columns_come_in_groups():
    shown = window(MOCK)
    rows = list(lines(Layout(), shown))
    assert [row.name for row in rows] == ["dp0", "dp1"]
    assert [len(group) for group in rows[0].groups] == [8, 8]
    assert rows[1].groups[1][3] == Slot(1, 0, 3, 1)
    assert Counter(slot for row in rows for group in row.groups for slot in group) == Counter(MOCK.slots())
    above = heads(Layout(), shown)
    assert above.groups == ("pp0", "pp1") and above.columns[0][:2] == ("tp0", "tp1") and above.count == 16


def test_any_choice_of_axes_stands_every_slot_once():
    topology = Topology(2, 3, 2, 2)
    for rows in ("dp", "tp.pp", "dp.cp.tp", "pp"):
        layout = read_layout(rows, "")
        found = [slot for line in lines(layout, window(topology)) for group in line.groups for slot in group]
        assert sorted(found) == list(topology.slots()), rows


@pytest.mark.parametrize("rows", ["", "xp", "dp.dp", "dp.cp.tp.pp", "dp,cp"])
def test_axes_that_make_no_grid_are_refused(rows):
    if rows:
        with pytest.raises(Refused, match="takes"):
            read_layout(rows, "")
    else:
        assert read_layout(rows, "") == Layout()


def test_a_launch_that_is_too_large_is_shown_by_whole_dp_groups():
    shown = window(Topology(64, 1, 128, 1), 33)
    assert (shown.size, shown.told, shown.earlier, shown.later) == (4096, "dp32 to dp63 of 64", 0, None)
    first = window(Topology(64, 1, 128, 1))
    assert (first.earlier, first.later) == (None, 32)
    assert window(Topology(4096, 1, 16, 1), 4095).size == 4096
    assert window(Topology(3, 1, 2000, 1), 2).ranges[0] == range(2, 3)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"tab": "nonsense"}, "tab is one of ranks"),
        ({"show": "luck"}, "show is one of verdict"),
        ({"rank": "dp0"}, "rank is a slot such as dp0.cp0.tp3.pp0"),
        ({"state": "fine"}, "state is a word such as"),
        ({"dp": "-1"}, "dp is a number"),
        ({"dp": "99999"}, "dp is a number up to 4096"),
        ({"launch": "9" * 30}, "launch is a number"),
        ({"before": "x"}, "before is a number"),
        ({"cols": "xx"}, "cols takes axes"),
    ],
)
def test_what_makes_no_sense_in_a_url_is_refused_with_a_sentence(query, sentence):
    with pytest.raises(Refused, match=sentence) as refused:
        Asked.read(query)
    assert refused.value.code == "malformed"


def test_a_table_is_paged_in_the_order_of_slots_and_narrowed_by_word():
    class Alike(dict):
        def facts(self, slot):
            return {"health": Cell.UP, "intent": Cell.ENABLED, "breaker": Cell.CLOSED}

        def rank(self, slot):
            return None

    found = Alike({slot: cells.CellRow(Cell.MISSING if slot.tp % 2 else Cell.UP) for slot in MOCK.slots()})
    found.launch = launch(MOCK, 16)
    page = rank_table.table(found, after=None, only=Cell.MISSING, limit=10)
    assert [line.name for line in page.lines[:2]] == ["dp0 tp1 pp0", "dp0 tp1 pp1"]
    rest = rank_table.table(found, after=rank_table.read_slot(page.next), only=Cell.MISSING, limit=10)
    assert (len(page.lines), len(rest.lines), rest.next) == (10, 6, "")
    assert page.first and not rest.first


def launch(topology: Topology, registered: int, *, opened_ago: float = 600, **more) -> LaunchRow:
    now = time.time()
    fields = {"completed_at": None, "ended_at": None, "ended_reason": "", "state": "current", "number": 7} | more
    return LaunchRow(
        topology=topology,
        token=None,
        facts={},
        opened_at=now - opened_ago,
        unchecked=False,
        registered=registered,
        **fields,
    )


def rank(
    slot: Slot, topology: Topology, *, first_ago: float, left_ago: float | None = None, number: int = 7
) -> RankRow:
    now = time.time()
    left = now - left_ago if left_ago is not None else None
    return RankRow(number, topology, slot, "10.0.0.1", 1, None, "up", True, True, (), now - first_ago, now - 1, left)


def test_the_timeline_rises_while_a_launch_fills_and_marks_who_left():
    topology, now = Topology(1, 1, 4, 1), time.time()
    ranks = [rank(slot, topology, first_ago=590 - 20 * place) for place, slot in enumerate(topology.slots())]
    ranks[3] = rank(Slot(0, 0, 3, 0), topology, first_ago=530, left_ago=100)
    found = timeline.timeline([launch(topology, 3, completed_at=now - 525)], ranks, now=now)
    (track,) = found.tracks
    assert [span.tone for span in track.spans] == ["busy", "ok", "warn"]
    assert track.spans[-1].text == "3 of 4" and track.spans[1].text == "4 of 4"
    assert len(track.marks) == 1 and track.spans[1].x < track.marks[0] <= track.spans[2].x + 0.1
    heights = [bar.height for bar in track.bars]
    assert heights == sorted(heights) and heights[-1] == timeline.BAND
    assert "Launch 7 opened at" in found.told and "3 of 4 registered." in found.told


def test_a_timeline_is_small_however_long_the_story_is():
    topology, now = Topology(16, 1, 16, 16), time.time()
    ranks = [
        rank(slot, topology, first_ago=600 - place / 10, left_ago=300 - place / 20)
        for place, slot in enumerate(topology.slots())
    ]
    gone = {"state": "dropped", "ended_at": now - 10, "ended_reason": "left"}
    past = [launch(topology, 0, number=number, **gone) for number in range(40, 20, -1)]
    found = timeline.timeline([*past, launch(topology, 0, number=7)], ranks, now=now)
    assert len(found.tracks) == timeline.MOST_TRACKS
    for track in found.tracks:
        assert len(track.spans) + len(track.bars) + len(track.marks) < 120


def test_there_is_no_timeline_without_launches():
    assert timeline.timeline([], [], now=0.0) is None
