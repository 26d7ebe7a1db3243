"""The window of the matrix, the pair in full, the counts of all pairs, and what went that way lately."""

import time

import pytest

from controlplane.commands import instances
from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.decodes import read
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Topology
from controlplane.models import Instance, OutcomeCount
from controlplane.queries import matrix as module
from controlplane.queries import memo, pair_traffic
from controlplane.queries.fleet import snapshot
from controlplane.queries.matrix import Asked, Matrix
from tests.controlplane.queries.world import World

TP4, TP3 = Topology(1, 1, 4, 1), Topology(1, 1, 3, 1)
NOW = 1_000_000.0


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    memo.forget()
    return on_backend


def serving(name: str, topology: Topology = TP4, role: str = "prefill") -> World:
    world = World(name)
    Instance.objects.using(FACTS).filter(pk=world.row.pk).update(role=role)
    world.launch(topology, first_port=4000)
    return world


def look(**asked) -> Matrix:
    memo.forget()
    with snapshot():
        return module.matrix(Asked(**asked), now=time.time())


def test_every_pair_stands_in_its_cell_and_the_worst_one_is_shown_in_full():
    serving("p1"), serving("p2", TP3)
    serving("d1", TP4, "decode"), serving("d2", TP3, "decode")
    found = look()
    assert [[cell.compatibility.outlook for cell in row] for row in found.cells] == [
        ["compatible", "incompatible"],
        ["incompatible", "compatible"],
    ]
    assert (found.pairs, found.counts["incompatible"], found.counts["compatible"], found.usable) == (4, 2, 2, 2)
    assert (found.chosen.pair.prefill, found.chosen.pair.decode) == ("p1", "d2")


def test_the_pair_that_is_asked_for_is_shown_whatever_the_window_holds(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 2)
    monkeypatch.setattr(module, "COLUMNS", 2)
    for number in range(5):
        serving(f"p{number}")
        instances.add(f"d{number}", role="decode", actor="anna")
    first = look()
    assert [row.name for row in first.prefills.rows] == ["p0", "p1"]
    assert (first.prefills.first, first.prefills.last, first.prefills.total) == (1, 2, 5)
    assert (first.prefills.before, first.prefills.next, first.decodes.next) == (None, "p2", "d2")
    there = look(prefill="p3", decode="d4")
    assert [row.name for row in there.prefills.rows] == ["p2", "p3"]
    assert [row.name for row in there.decodes.rows] == ["d4"]
    assert (there.prefills.before, there.decodes.before, there.decodes.next) == ("p0", "d2", None)
    assert there.chosen.pair.prefill == "p3" and there.chosen.prefill.name == "p3"
    elsewhere = look(prefill="p3", decode="d4", from_prefill="p0", from_decode="d0")
    assert [row.name for row in elsewhere.prefills.rows] == ["p0", "p1"] and elsewhere.chosen.pair.decode == "d4"


def test_names_that_do_not_exist_or_have_the_wrong_role_are_refused():
    serving("p")
    instances.add("d", role="decode", actor="anna")
    for asked, code in (
        ({"prefill": "x", "decode": "d"}, "not_found"),
        ({"prefill": "d", "decode": "p"}, "conflict"),
        ({"decode": "d"}, "malformed"),
    ):
        with pytest.raises(Refused) as refused:
            look(**asked)
        assert refused.value.code == code


def test_a_decode_that_describes_itself_is_a_column_or_speaks_for_one_that_is_named():
    serving("p")
    instances.add("d", role="decode", actor="anna")
    posted = read({"tp_size": 4, "page_size": 32, "kv_cache_dtype": "auto"})
    found = look(posted=posted)
    assert found.described and [cell.decode for cell in found.cells[0]] == ["", "d"]
    assert found.chosen.pair.compatibility.why_not.field == "page_size" and found.chosen.decode is None
    named = look(posted=posted, prefill="p", decode="d")
    assert not named.described
    assert (named.chosen.pair.known_from, named.chosen.pair.verdict) == ("posted", "incompatible")
    assert named.cells[0][0] == named.chosen.pair
    assert look(posted=posted, prefill="p").chosen.pair.known_from == "posted"


def test_only_those_with_a_problem_are_shown_when_that_is_asked_for():
    serving("p1"), serving("p2", TP3)
    serving("d1", TP4, "decode")
    found = look(problems=True)
    assert [row.name for row in found.prefills.rows] == ["p2"] and [row.name for row in found.decodes.rows] == ["d1"]
    assert look(text="p1").cells == () or [row.name for row in look(text="p1").prefills.rows] == ["p1"]


def test_a_fleet_of_too_many_kinds_is_shown_and_not_counted(monkeypatch):
    monkeypatch.setattr(module, "MOST_KINDS", 1)
    serving("p1"), serving("p2", TP3)
    serving("d1", TP4, "decode")
    found = look()
    assert (found.counts, found.usable, len(found.cells)) == (None, None, 2)
    assert len(look(problems=True).cells) == 2


def test_an_empty_fleet_has_an_empty_matrix():
    found = look()
    assert (found.cells, found.pairs, found.chosen, found.prefills.first) == ((), 0, None, 0)


def outcome(prefill: str, decode: str, word: str, count: int, *, minutes_ago: int = 0, gateway: str = "g") -> None:
    OutcomeCount.objects.using(TRAFFIC).create(
        minute=int(NOW // 60) - minutes_ago, gateway=gateway, prefill=prefill, decode=decode, outcome=word, count=count
    )


def test_traffic_is_added_up_by_pair_over_the_last_minutes():
    outcome("p", "d", "ok", 900)
    outcome("p", "d", "ok", 80, gateway="h")
    outcome("p", "d", "cut", 15, minutes_ago=14)
    outcome("p", "d", "prefill_failed", 5)
    outcome("p", "d", "cut", 99, minutes_ago=15)
    outcome("q", "d", "ok", 1)
    found = pair_traffic.traffic(["p"], ["d", "e"], now=NOW)
    assert list(found) == [("p", "d")]
    row = found["p", "d"]
    assert (row.requests, row.failed, row.failures) == (1000, 20, (("cut", 15), ("prefill_failed", 5)))
    assert (row.failed_share, row.per_second) == (0.02, 1000 / (14 * 60 + NOW % 60))
    assert pair_traffic.traffic([], ["d"], now=NOW) == {}


def test_the_pace_of_a_pair_is_that_of_the_time_of_which_gateways_have_reported():
    outcome("p", "d", "ok", 120, minutes_ago=1)
    outcome("p", "e", "ok", 6)
    found = pair_traffic.traffic(["p"], ["d", "e"], now=NOW)
    assert found["p", "d"].per_second == 120 / (60 + NOW % 60)
    assert found["p", "e"].per_second == 6 / (60 + NOW % 60)
    # A report may be about more than the second in which it comes.
    just_now = NOW // 60 * 60 + 1
    OutcomeCount.objects.using(TRAFFIC).filter(decode="d").delete()
    assert pair_traffic.traffic(["p"], ["e"], now=just_now)["p", "e"].per_second == 6 / 10


def test_the_busiest_pairs_come_first_and_their_number_is_bounded():
    for number in range(5):
        outcome(f"p{number}", "d", "ok", number + 1)
    outcome("", "d", "ok", 1000)
    assert [row.prefill for row in pair_traffic.busiest(now=NOW, limit=2)] == ["p4", "p3"]
