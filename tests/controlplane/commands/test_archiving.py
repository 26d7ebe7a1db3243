"""Ended launches go into the archive with all that was known of them, and out of it when they are old."""

import time

import pytest
from django.conf import settings

from controlplane.commands import archiving, purging, trimming
from controlplane.commands.trimming import Budget
from controlplane.databases import FACTS
from controlplane.domain.archive import replaced_by
from controlplane.domain.topology import Slot, Topology
from controlplane.models import ArchivedLaunch, Event, Instance, Launch, PurgedInstance, Rank, Trimmed
from controlplane.queries import fleet, stale, state
from controlplane.tasks.retention import archive_ended_launches
from tests.controlplane.queries.world import World

PAIR = Topology(1, 1, 2, 1)
DAY = 86_400.0


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def restarted(times: int, name: str = "a") -> World:
    """A prefill that crashed so many times; a new port each, launches `times` + 1."""
    world = World(name, ago=50_000.0)
    ports: list[int] = []
    for number in range(times + 1):
        world.refuse(*ports)
        world.now += 100
        ports = world.launch(PAIR, first_port=20_000 + 10 * number, token=f"t{number}")
    return world


def in_tables(world: World) -> list[int]:
    rows = Launch.objects.using(FACTS).filter(instance_id=world.row.pk)
    return list(rows.order_by("number").values_list("number", flat=True))


def archived() -> list[int]:
    return sorted(row.number for row in stale.archive(limit=1000))


def test_launches_that_ended_move_with_their_ranks_and_nothing_of_the_fleet_changes():
    world = restarted(5)
    before, told = state.fleet_state(), fleet.launches(world.row.pk)
    assert archiving.archive_ended(now=time.time() + 2 * DAY) == 5
    assert (in_tables(world), archived()) == ([6], [1, 2, 3, 4, 5])
    assert set(Rank.objects.using(FACTS).values_list("launch", flat=True)) == {6}
    assert state.fleet_state() == before
    # Pages and API go on to list them, the newest first, as they were.
    assert fleet.launches(world.row.pk) == told
    assert fleet.launches(world.row.pk, before=4, limit=2) == told[3:5]
    row = next(row for row in stale.archive() if row.number == 3)
    assert (row.instance, row.token, row.topology, row.rank_count) == ("a", "t2", (1, 1, 2, 1), 2)
    assert [(rank["slot"], rank["port"]) for rank in row.ranks] == [([0, 0, 0, 0], 20_020), ([0, 0, 1, 0], 20_021)]
    assert row.first_seen_at == row.opened_at and row.last_seen_at >= row.first_seen_at
    assert row.ended_at > row.last_seen_at and row.ranks[0]["left_at"] is not None
    assert row.ended_reason
    assert Trimmed.objects.using(FACTS).get(subject="ended launches").total == 5


def test_what_took_its_place_is_known():
    world = restarted(3)
    # One that never was whole, and that nobody has to take the place of.
    world.refuse(20_030, 20_031)
    world.put(Slot(0, 0, 0, 0), PAIR, port=31_000, token="half")
    world.refuse(31_000)
    world.launch(PAIR, first_port=32_000, token="last")
    Launch.objects.using(FACTS).filter(number=2).update(state="replaced", ended_reason="replaced by launch 4")
    archiving.archive_ended(now=time.time() + 2 * DAY)
    assert {row.number: row.replaced_by for row in stale.archive()} == {1: 2, 2: 4, 3: 4, 4: 6, 5: None}
    assert replaced_by("replaced by launch 12") == 12 and replaced_by("all of its ranks left") is None


def test_the_last_launch_stays_while_its_instance_may_come_back():
    world = restarted(1)
    world.refuse(20_010, 20_011)
    assert not Launch.objects.using(FACTS).filter(ended_at=None).exists()
    archiving.archive_ended(now=time.time() + 2 * DAY)
    assert in_tables(world) == [2], "whoever is re-admitted is found there"
    Instance.objects.using(FACTS).update(intent="retired", retired_at=1.0)
    archiving.archive_ended(now=time.time() + 2 * DAY)
    assert (in_tables(world), archived()) == ([], [1, 2])


def test_a_launch_stays_where_it_was_as_long_as_the_setting_says(monkeypatch):
    restarted(3)
    now = time.time()
    Launch.objects.using(FACTS).filter(number=1).update(ended_at=now - DAY - 1)
    Launch.objects.using(FACTS).filter(number__in=(2, 3)).update(ended_at=now - DAY + 60)
    assert archiving.archive_ended(now=now) == 1
    monkeypatch.setattr(settings, "PDCP_KEEP_ENDED_LAUNCHES_DAYS", 0)
    assert archiving.archive_ended(now=now + 1000 * DAY) == 0, "0 is for ever"


def test_a_round_is_bounded_and_the_next_goes_on(monkeypatch):
    monkeypatch.setattr(archiving, "LAUNCHES_AT_ONCE", 2)
    world = restarted(5)
    later = time.time() + 2 * DAY
    assert archiving.archive_ended(now=later, budget=Budget(0)) == 2
    assert archiving.archive_ended(now=later) == 3
    assert (in_tables(world), archived()) == ([6], [1, 2, 3, 4, 5])


def test_a_launch_that_is_archived_twice_is_there_once():
    restarted(1)
    launch = Launch.objects.using(FACTS).get(number=1)
    ranks = list(Rank.objects.using(FACTS).filter(launch=1))
    archiving.archive_ended(now=time.time() + 2 * DAY)
    # Another round had read it before, and was slow.
    row = archiving._archived(launch, ranks, "a", time.time())
    ArchivedLaunch.objects.using(FACTS).bulk_create([row], ignore_conflicts=True)
    assert archived() == [1]
    assert archiving._move([(launch.instance_id, 1)], time.time()) == 0


def test_the_archive_forgets_what_is_old_and_names_of_instances_that_nothing_speaks_of(monkeypatch):
    restarted(4)
    now = time.time()
    archiving.archive_ended(now=now + 2 * DAY)
    ArchivedLaunch.objects.using(FACTS).filter(number__lte=2).update(ended_at=now - 91 * DAY)
    said = {"role": "prefill", "created_at": 1.0, "retired_at": 2.0, "actor": "anna"}
    for key, purged_at in ((9001, now - 91 * DAY), (9002, now - DAY)):
        PurgedInstance.objects.using(FACTS).create(instance_id=key, name=f"p{key}", purged_at=purged_at, **said)
    assert archiving.forget_archived(now=now) == 2
    assert archived() == [3, 4]
    assert list(PurgedInstance.objects.using(FACTS).values_list("instance_id", flat=True)) == [9002]
    monkeypatch.setattr(settings, "PDCP_KEEP_ARCHIVE_DAYS", 0)
    assert archiving.forget_archived(now=now + 1000 * DAY) == 0


def test_purging_the_archive_is_rehearsed_then_done_told_and_counted():
    restarted(4), restarted(2, "b")
    asked = {"older_than": 0.0, "actor": "anna", "reason": "audit is over", "now": time.time() + 1}
    archiving.archive_ended(now=time.time() + 2 * DAY)
    gone = purging.purge_archive(instance="a", **asked, dry_run=True)
    assert (gone.count, len(archived())) == (4, 6) and "would go" in gone.sentence
    gone = purging.purge_archive(instance="a", **asked)
    assert gone.count == 4 and gone.sentence.startswith("4 launches of a that ended")
    assert {row.instance for row in stale.archive()} == {"b"}
    event = Event.objects.using(FACTS).get(kind="archive.purged")
    assert (event.instance, event.actor, event.reason) == ("a", "anna", "audit is over")
    # Of all of them, those in the tables as well: but never a launch that is open.
    restarted(1, "c")
    assert purging.purge_archive(**asked, dry_run=True).count == 3, "what would go is what goes"
    assert purging.purge_archive(**asked).count == 3
    assert not ArchivedLaunch.objects.using(FACTS).exists()
    assert Launch.objects.using(FACTS).filter(ended_at=None).count() == 3
    assert purging.purge_archive(**asked).count == 0


def test_a_purge_of_one_takes_what_waits_in_the_tables_also_of_whoever_was_called_so_before(monkeypatch):
    key = restarted(2).row.pk
    PurgedInstance.objects.using(FACTS).create(instance_id=key, name="a", role="prefill", created_at=1.0, purged_at=2.0)
    Instance.objects.using(FACTS).filter(pk=key).delete()
    asked = {"instance": "a", "older_than": 0.0, "actor": "anna", "now": time.time() + 1}
    assert purging.purge_archive(**asked, dry_run=True).count == 2
    monkeypatch.setattr(trimming, "CHUNK", 1)
    monkeypatch.setattr(purging, "Budget", lambda seconds: Budget(0 if seconds > 30 else seconds))
    gone = purging.purge_archive(**asked)
    assert gone.count == 1 and gone.sentence.endswith("went out of the archive, 1 launch did not yet: purge again")


def test_the_task_may_run_twice():
    restarted(2)
    Launch.objects.using(FACTS).filter(ended_at__isnull=False).update(ended_at=1.0)
    archive_ended_launches()
    archive_ended_launches()
    # So old that they go on at once.
    assert archived() == []
    assert Launch.objects.using(FACTS).count() == 1
