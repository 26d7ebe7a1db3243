"""`/health` of a relay: 503 until everybody who polls was told twice, and never for what is not known."""

from __future__ import annotations

from workers.relay.flushing import Health


def told(health: Health, connection: int, now: float) -> int:
    health.pollers.polled(connection, health.status, now)
    return health.status


def test_nothing_is_owed_before_anything_was_served():
    health = Health()
    health.serving(None, now=1)
    assert told(health, 1, 1) == 200
    health.serving("a", now=2)
    assert health.status == 200


def test_another_launch_is_served_when_every_poller_was_told_twice():
    health = Health()
    health.serving("a", now=1)
    assert [told(health, n, 2) for n in (1, 2)] == [200, 200]
    assert health.serving("b", now=3) and health.owes
    assert [told(health, n, 4) for n in (1, 1, 2)] == [503] * 3
    health.serving("b", now=5)
    assert health.owes, "the second was told once"
    told(health, 2, 6)
    assert health.serving("b", now=6) and not health.owes


def test_it_ends_after_a_minute_whoever_was_not_told_and_at_once_when_nobody_polls():
    health = Health()
    health.serving("a", now=1)
    health.serving("b", now=2)
    assert not health.owes
    told(health, 1, 3)
    health.serving("c", now=4)
    assert told(health, 1, 4.5) == 503
    health.serving("c", now=63.9)
    assert health.owes
    health.serving("c", now=64)
    assert not health.owes


def test_an_engine_that_ended_is_503_until_another_is_whole():
    health = Health()
    health.serving("a", now=1)
    told(health, 1, 2)
    health.serving(None, now=3)
    assert [told(health, 1, n) for n in (4, 5, 300)] == [503] * 3
    health.serving("b", now=301)
    assert not health.owes, "who polls was told often enough"


def test_the_control_planes_own_503_holds_and_those_that_were_not_told_hold_it_longer():
    health = Health()
    health.serving("a", now=1)
    told(health, 1, 2)
    health.serving("a", now=3, forced=True)
    assert told(health, 1, 3) == 503
    health.serving("b", now=4)
    assert health.owes
    assert told(health, 1, 5) == 503
    health.serving("b", now=5)
    assert not health.owes


def test_the_same_thing_by_another_name_is_no_change():
    health = Health()
    health.serving(("x", 1), now=1)
    told(health, 1, 1)
    assert not health.serving(("x", 1), now=2) and not health.owes


def test_after_a_restart_it_goes_on_where_it_was_and_waits_for_those_that_come_back():
    health = Health(since=100.0, polled_before=105.0)
    health.serving("b", now=106)
    assert health.owes
    assert [told(health, 7, 107), told(health, 7, 108)] == [503, 503]
    health.serving("b", now=110)
    assert health.owes, "others may come back yet"
    health.serving("b", now=118)
    assert not health.owes
