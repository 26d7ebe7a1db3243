"""Reported cases: rows of launches that are over are told from those that count, for as long as they are kept."""

import tests.support.inside  # noqa: F401  isort: skip

import re

import pytest

from controlplane.commands import instances
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Topology
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import Pages, on_backend, text_of

__all__ = ["on_backend"]

TP4 = Topology(1, 1, 4, 1)
RESTARTS = 50


@pytest.fixture
def restarted(on_backend) -> World:
    """A prefill that crashed and came back, each time with new ports; five others were retired for good."""
    world = World(ago=50_000.0)
    ports: list[int] = []
    for number in range(RESTARTS + 1):
        world.refuse(*ports)
        world.now += 600
        ports = world.launch(TP4, first_port=20_000 + 10 * number, token=f"launch-{number}")
    for number in range(5):
        instances.add(f"gone-{number}", actor="anna", reason="for a test")
        instances.retire(f"gone-{number}", actor="anna", reason="hardware returned")
    return world


def test_OPS_08_only_ranks_that_count_are_in_the_grid_and_ended_launches_say_when_and_why(restarted):
    viewer = Pages("viewer")
    page = viewer.get("/instances/prefill-a/")
    assert page.count('role="gridcell"') == 4 and f"Launch {RESTARTS + 1} current" in text_of(page)
    table = viewer.get("/instances/prefill-a/?view=table")
    assert set(re.findall(r"10\.0\.0\.1:(\d+)", text_of(table))) == {str(20_000 + 10 * RESTARTS + n) for n in range(4)}
    seen: list[int] = []
    url = "?tab=launches"
    while url:
        html = viewer.get(f"/instances/prefill-a/{url}")
        seen += map(int, re.findall(r'id="launch-(\d+)"', html))
        assert "all of its ranks left" in html, "each that ended says why"
        older = re.search(r'href="(\?tab=launches&amp;before=\d+)"', html)
        url = older[1].replace("&amp;", "&") if older else ""
    assert seen == list(range(RESTARTS + 1, 0, -1)), "none of them is lost, none is told twice"


def test_OPS_08_what_was_retired_says_so_and_takes_no_place_among_the_living(restarted):
    said = Pages("viewer").text("/instances/gone-0/")
    assert "gone-0 is retired" in said and "hardware returned" in said and "404" in said


def test_OPS_02_of_what_was_removed_nothing_is_counted_and_late_word_does_not_bring_it_back(restarted):
    viewer = Pages("viewer")

    def counted() -> str:
        return viewer.text("/", parts="counters")

    before = counted()
    assert re.search(r"Ranks routable \d+ / 4 ", before), before
    instances.retire("prefill-a", actor="anna", reason="hardware returned")
    after = counted()
    assert after == "", "nothing is left to count"
    # What was under way when it went: a probe that still finds somebody there.
    restarted.probe(Contact.UP, *(20_000 + 10 * RESTARTS + n for n in range(4)))
    assert counted() == after and 'data-key="prefill-a"' not in viewer.get("/")
