"""Reported cases: rows of launches that are over are told from those that count, for as long as they are kept."""

import tests.support.inside  # noqa: F401  isort: skip

import re
import time

import pytest
from django.conf import settings

from controlplane.bootstrap.fleet import Instance as Held
from controlplane.bootstrap.purging import Purge
from controlplane.bootstrap.recorder import Staged
from controlplane.commands import instances, purging
from controlplane.databases import FACTS
from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Topology
from controlplane.ledger.writes import Writes
from controlplane.models import Instance, Launch, Rank
from controlplane.queries import stale
from controlplane.tasks import retention as tasks
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


def test_OPS_08_old_launches_are_archived_pruned_by_age_and_what_is_purged_is_told(restarted, monkeypatch):
    """Current rows are those that live; the archive says first and last seen and what came next; a setting prunes it."""
    now = time.time()
    monkeypatch.setattr(settings, "PDCP_KEEP_ENDED_LAUNCHES_DAYS", 0.001)
    tasks.archive_ended_launches()
    assert list(Launch.objects.using(FACTS).values_list("number", flat=True)) == [RESTARTS + 1]
    assert Rank.objects.using(FACTS).count() == 4
    kept = {row.number: row for row in stale.archive(limit=1000)}
    assert sorted(kept) == list(range(1, RESTARTS + 1))
    assert all(row.replaced_by == row.number + 1 for row in kept.values())
    assert all(row.first_seen_at <= row.last_seen_at < row.ended_at and row.rank_count == 4 for row in kept.values())
    # The page lists all of them as before.
    html = Pages("viewer").get("/instances/prefill-a/?tab=launches")
    assert f'id="launch-{RESTARTS + 1}"' in html and f'id="launch-{RESTARTS}"' in html
    # Those older than the setting are pruned.
    middle = kept[RESTARTS // 2].ended_at
    monkeypatch.setattr(settings, "PDCP_KEEP_ARCHIVE_DAYS", (now - middle) / 86_400)
    tasks.archive_ended_launches()
    assert sorted(row.number for row in stale.archive(limit=1000)) == list(range(RESTARTS // 2 + 1, RESTARTS + 1))

    # What is stale is told with age and reason; a purge is planned, refused for who lives, done, and told.
    rows = stale.stale(now=now + 60)
    assert [(row.instance, row.what) for row in rows] == [(f"gone-{n}", "retired") for n in range(5)]
    assert all(row.reason == "retired by anna: hardware returned" and row.since <= now for row in rows)
    assert any("stay in the archive" in said for said in purging.plan("gone-0", now=now).sentences)
    with pytest.raises(Refused, match="prefill-a is not retired: retire it first, or override"):
        purging.purge("prefill-a", actor="anna")
    number = purging.purge("gone-0", actor="anna", reason="tidying")
    gone = Instance.objects.using(FACTS).get(name="gone-0")
    staged, writes = Staged(held := Held(gone.pk, "gone-0", intent="retired"), held.directory, held.engines), Writes(1)
    Purge(held, request=number, override=False, answering=0, actor="anna", reason="tidying").decide(staged, writes, now)
    restarted.store.commit(1, writes)
    assert [row.instance for row in stale.stale(now=now + 60)] == [f"gone-{n}" for n in range(1, 5)]
    said = Pages("viewer").text("/events/?kind=instance")
    assert "gone-0 was purged" in said and "anna" in said and "tidying" in said


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
