"""What stays behind of retired and purged instances goes, of the others nothing does; and the state follows by events."""

import time

import pytest
from django.conf import settings

from controlplane.commands import leftovers, trimming
from controlplane.commands.trimming import Budget
from controlplane.databases import FACTS
from controlplane.domain import fleetstate
from controlplane.ledger.tail import after
from controlplane.models import (
    Breaker,
    Drain,
    EngineHealth,
    EngineInfo,
    Event,
    GroupIntent,
    Instance,
    OpenRooms,
    Request,
    Router,
    RouterMember,
    Suspicion,
    WorkerLease,
)
from controlplane.queries import state
from controlplane.tasks.retention import sweep_leftovers
from tests.controlplane.queries.whole_fleet import WholeFleet

DAY = 86_400.0
NOBODY = 9999


@pytest.fixture
def fleet(on_backend) -> WholeFleet:
    made = WholeFleet()
    for name in ("a", "b"):
        made.add(name)
    made.join("g1")
    return made


def later() -> float:
    return time.time() + 2 * DAY


def members(router: str) -> set[str]:
    key = Router.objects.using(FACTS).get(name=router).pk
    return set(RouterMember.objects.using(FACTS).filter(router_id=key, wanted=True).values_list("instance", flat=True))


def test_breakers_about_a_retired_instance_close_with_an_event_that_the_state_follows(fleet):
    for name in ("a", "b"):
        fleet.breaker("g1", name, "open")
        fleet.breaker("g1", name, "half_open", 1)
    fleet.retire("a")
    # Closed, and so no part of the state.
    Breaker.objects.using(FACTS).create(gateway="g2", instance="a", state="closed", since=1.0, reported_at=1.0)
    assert leftovers.sweep(now=time.time()) == {}, "it has only just been retired"
    cursor, before = state.fleet_state()
    assert leftovers.sweep(now=later()) == {"breakers": 3}
    assert set(Breaker.objects.using(FACTS).values_list("instance", flat=True)) == {"b"}
    events = after(cursor.revision)
    assert [(event.kind, event.instance, event.reason) for event in events] == [
        ("breaker.turned", "a", "a is retired")
    ] * 2
    assert fleetstate.follow(before, events) == state.fleet_state()[1]
    assert leftovers.sweep(now=later()) == {}


def test_a_retired_instance_leaves_the_lists_of_routers_and_others_stay(fleet):
    fleet.add("c")
    fleet.router("add", "r", "a", "b")
    fleet.router("add", "s", "b", "c")
    fleet.retire("a")
    assert leftovers.sweep(now=later()) == {"router members": 1}
    assert (members("r"), members("s")) == ({"b"}, {"b", "c"})
    event = Event.objects.using(FACTS).get(kind="router.changed")
    assert (event.actor, event.reason) == ("retention", "retired: a")
    cursor, told = state.fleet_state()
    assert state.as_of(cursor.revision) == told


def test_what_was_reported_of_a_retired_instance_goes(fleet):
    fleet.open_rooms("g1", "a", 3), fleet.open_rooms("g1", "b", 3)
    fleet.retire("a")
    assert leftovers.sweep(now=later()) == {"open rooms": 1}
    assert [row.instance for row in OpenRooms.objects.using(FACTS).all()] == ["b"]


def test_what_knows_a_purged_instance_by_number_goes_and_nothing_else(fleet):
    there = Instance.objects.using(FACTS).get(name="a").pk
    for key in (there, NOBODY):
        beat = {"slots": "", "seen_at": 1.0, "expires_at": 1.0}
        WorkerLease.objects.using(FACTS).create(worker=f"w{key}", instance_id=key, **beat)
        EngineHealth.objects.using(FACTS).create(instance_id=key, at="http://x", state="up", since=1.0)
        Suspicion.objects.using(FACTS).create(instance_id=key, instance="x", at=1.0, by="anna")
        GroupIntent.objects.using(FACTS).create(instance_id=key, group=0, intent="cordoned", actor="anna", at=1.0)
        session(key, 1)
    gone = leftovers.sweep(now=later())
    assert gone == dict.fromkeys(["worker leases", "engine health", "suspicions", "group intents", "sessions"], 1)
    for model in (WorkerLease, EngineHealth, Suspicion, GroupIntent, EngineInfo):
        assert list(model.objects.using(FACTS).values_list("instance_id", flat=True)) == [there]


def session(instance: int, epoch: int, *, rank: int = 0, ended_at: float | None = 1.0) -> None:
    said = {"session": "h:1", "digest": "d", "tensors": 1, "total_bytes": 1, "at": 1.0}
    found = "retired" if ended_at is not None else "live"
    EngineInfo.objects.using(FACTS).create(
        instance_id=instance, rank=rank, epoch=epoch, state=found, ended_at=ended_at, **said
    )


def test_old_sessions_go_but_the_last_of_each_rank_for_the_next_number_follows_from_it(fleet):
    there = Instance.objects.using(FACTS).get(name="a").pk
    for epoch in (1, 2, 3):
        session(there, epoch)
    session(there, 1, rank=1)
    session(there, 2, rank=1, ended_at=None)
    session(there, 1, rank=2, ended_at=time.time() - DAY)
    session(there, 2, rank=2, ended_at=time.time() - DAY)
    assert leftovers.sweep(now=time.time()) == {"ended sessions": 3}
    left = EngineInfo.objects.using(FACTS).order_by("rank", "epoch").values_list("rank", "epoch")
    assert list(left) == [(0, 3), (1, 2), (2, 1), (2, 2)]


def test_answered_requests_and_ended_drains_go_when_they_are_old_and_open_ones_never(fleet, monkeypatch):
    fleet.request("reregister", "a"), fleet.request("reregister", "b")
    fleet.operate("drain", "a"), fleet.operate("cancel", "a")
    fleet.operate("drain", "b")
    long_ago = time.time() - 31 * DAY
    Request.objects.using(FACTS).update(made_at=long_ago)
    Request.objects.using(FACTS).filter(instance="a").update(answered_at=long_ago)
    Drain.objects.using(FACTS).update(started_at=long_ago)
    Drain.objects.using(FACTS).filter(instance="a").update(ended_at=long_ago)
    before = state.fleet_state()
    monkeypatch.setattr(settings, "PDCP_KEEP_OPERATIONS_DAYS", 0)
    assert leftovers.sweep(now=time.time()) == {}
    monkeypatch.setattr(settings, "PDCP_KEEP_OPERATIONS_DAYS", 30)
    assert leftovers.sweep(now=time.time()) == {"requests": 1, "drains": 1}
    assert [row.instance for row in Request.objects.using(FACTS).all()] == ["b"]
    assert [row.instance for row in Drain.objects.using(FACTS).all()] == ["b"]
    assert state.fleet_state() == before


def test_a_round_is_bounded_and_the_task_goes_on_where_it_ended(fleet, monkeypatch):
    monkeypatch.setattr(trimming, "CHUNK", 2)
    for number in range(5):
        Request.objects.using(FACTS).create(
            kind="evict", instance="a", actor="x", made_at=1.0, answered_at=float(number)
        )
    assert leftovers.sweep(now=time.time(), budget=Budget(0)) == {"requests": 2}
    sweep_leftovers()
    assert not Request.objects.using(FACTS).exists()
    sweep_leftovers()
