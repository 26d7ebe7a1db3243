"""The journal's expired head is cut, a bounded piece at a time, and nothing else."""

import pytest
from django.conf import settings

from controlplane.commands import rooms
from controlplane.databases import TRAFFIC
from controlplane.models import RoomBinding, RoomCollision, RoomReuse
from controlplane.tasks.rooms import trim_expired_rooms

NOW = 1_000_000.0
LONG_AGO = NOW - rooms.kept_after_expiry() - 1


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def bind(*expiries: float) -> list[int]:
    made = [RoomBinding(instance_id=1, room=i, dp=0, expires_ms=round(at * 1000)) for i, at in enumerate(expiries)]
    RoomBinding.objects.using(TRAFFIC).bulk_create(made)
    return list(RoomBinding.objects.using(TRAFFIC).order_by("id").values_list("id", flat=True))


def left() -> list[int]:
    return list(RoomBinding.objects.using(TRAFFIC).order_by("id").values_list("id", flat=True))


def test_only_what_expired_long_enough_ago_for_every_clock_is_deleted():
    # One that expired a moment ago may come back, and must be recognised also by a process that starts now.
    ids = bind(LONG_AGO - 5, LONG_AGO, LONG_AGO + 2, NOW - 1, NOW + 60)
    assert rooms.trim_expired(now=NOW) == rooms.Trimmed(bindings=2)
    assert left() == ids[2:]
    assert rooms.trim_expired(now=NOW) == rooms.Trimmed()


def test_a_piece_is_no_larger_than_asked_and_pieces_add_up():
    ids = bind(*[LONG_AGO] * 25, NOW)
    assert rooms.trim_expired(now=NOW, chunk=10).bindings == 10
    assert left() == ids[10:]
    assert rooms.trim_for(5, clock=lambda: NOW, chunk=10).bindings == 15
    assert left() == ids[25:]


def test_an_expired_row_behind_a_living_one_waits_for_it():
    # After PDCP_ROOM_TTL_SECONDS was lowered; the later row may hide the earlier one of its room.
    ids = bind(NOW + 60, LONG_AGO)
    assert rooms.trim_expired(now=NOW).bindings == 0
    assert left() == ids


def test_a_clock_that_was_ahead_does_not_make_the_journal_grow_without_end(monkeypatch):
    monkeypatch.setattr(settings, "PDCP_ROOM_LIMIT", 5)
    bind(NOW + 1e9, *[LONG_AGO] * 30)
    assert rooms.trim_expired(now=NOW, chunk=100).bindings == 31
    ids = bind(NOW + 1e9, *[NOW + 1] * 22)
    assert rooms.trim_expired(now=NOW, chunk=100).bindings == 3, "no more than are of any use"
    assert left() == ids[3:]


def test_collisions_are_kept_for_a_day_and_in_a_bounded_number(monkeypatch):
    day = rooms.COLLISIONS_KEPT_SECONDS
    collisions = RoomCollision.objects.using(TRAFFIC)
    for at in (NOW - day - 1, NOW - 3, NOW - 2, NOW - 1):
        collisions.create(instance_id=1, room=1, before=0, after=1, at=at)
    assert rooms.trim_expired(now=NOW).collisions == 1
    monkeypatch.setattr(rooms, "COLLISIONS_KEPT", 2)
    assert rooms.trim_expired(now=NOW).collisions == 1
    assert list(collisions.order_by("id").values_list("at", flat=True)) == [NOW - 2, NOW - 1]


def test_reuses_are_kept_as_collisions_are():
    day = rooms.COLLISIONS_KEPT_SECONDS
    for at in (NOW - day - 1, NOW - 1):
        RoomReuse.objects.using(TRAFFIC).create(
            instance_id=1, room=1, before=0, after=0, over="expired", expired_at=at, at=at
        )
    assert rooms.trim_expired(now=NOW) == rooms.Trimmed(reuses=1)
    assert rooms.trim_for(5, clock=lambda: NOW) == rooms.Trimmed()


def test_the_task_may_run_twice():
    bind(LONG_AGO)
    trim_expired_rooms()
    trim_expired_rooms()
    assert left() == []
