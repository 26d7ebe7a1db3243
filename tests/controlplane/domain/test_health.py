"""`/health` as decodes hear it, and the evidence that ends a flush."""

import pytest

from controlplane.domain.directory import Debt, Directory
from controlplane.domain.health import (
    CLOSED_COUNTS,
    FIRST_POLL_WITHIN,
    FLUSH_LIMIT,
    POLLER_MEMORY,
    Pollers,
    health_status,
)
from tests.controlplane.domain.scene import Scene

SERVING = "tp0@1; tp1@2; up 1 2; "
# fmt: off
TRUTH = [
    ("before anyone registered", "", 200),
    ("incomplete for the first time", "tp0@1; up 1", 200),
    ("complete", SERVING, 200),
    ("a rank that greeted refuses once", SERVING + "refused 1", 200),
    ("a rank that greeted refuses twice", SERVING + "dead 1", 503),
    ("all of them do", SERVING + "dead 1 2", 503),
    ("a rank of an incomplete first launch does", "tp0@1; up 1; dead 1", 200),
    ("a rank never reached refuses", "tp0@1; tp1@2; unreached 1 2; dead 1", 200),
    ("ranks are silent", SERVING + "silent 1 2; wait 99; silent 1 2", 200),
    ("ranks are out of reach", SERVING + "unreached 1 2", 200),
    ("ranks are silent while broken: the last answer stands", SERVING + "dead 1; silent 2", 503),
    ("nobody probes", SERVING + "wait 100000", 200),
    ("a candidate is beside it", SERVING + "tp0@3; up 3", 200),
    ("the candidate dies", SERVING + "tp0@3; up 3; dead 3", 200),
    ("replaced", SERVING + "tp0@3; tp1@4; up 3 4; dead 1 2", 503),
    ("replaced, and everybody was told", SERVING + "tp0@3; tp1@4; up 3 4; dead 1 2; flushed", 200),
    ("evicted", SERVING + "evict", 503),
    ("evicted, and everybody was told", SERVING + "evict; flushed", 200),
    ("broken, and everybody was told", SERVING + "dead 1; flushed", 503),
    ("whole again", SERVING + "dead 1; tp0@3; up 2 3", 503),
    ("whole again, and everybody was told", SERVING + "dead 1; tp0@3; up 2 3; flushed", 200),
]
# fmt: on


@pytest.mark.parametrize(("script", "status"), [row[1:] for row in TRUTH], ids=[row[0] for row in TRUTH])
def test_health(script: str, status: int):
    assert health_status(Scene().play(script).directory, retired=False) == status


def test_an_unknown_and_a_retired_instance_are_not_found():
    assert health_status(None, retired=False) == 404
    assert health_status(Directory("here"), retired=True) == 404
    assert health_status(Directory("here", debt=Debt(1.0, False)), retired=True) == 404


def test_a_long_restart_keeps_the_moment_it_began_so_that_there_is_one_flush():
    scene = Scene().play(SERVING + "dead 1 2")
    began = scene.directory.debt.since
    scene.play("wait 180; tp0@3; tp1@4; up 3 4")
    assert scene.directory.debt == Debt(began, hold=False)
    # Whatever pollers heard in three minutes counts, and the limit has long passed.
    assert Pollers().flush_is_over(began, scene.now)
    scene.play("flushed; wait 1; up 3 4")
    assert scene.truth()["serves"] == "3 4"
    assert scene.kinds.count("health.turned") == 3


def test_a_flush_lasts_until_every_poller_was_told_twice_in_a_row():
    pollers = Pollers()
    for connection in (1, 2):
        pollers.polled(connection, 200, 0.0)
    assert pollers.waiting(1.0) == 2
    pollers.polled(1, 503, 1.0)
    pollers.polled(1, 503, 6.0)
    pollers.polled(2, 503, 6.0)
    assert not pollers.flush_is_over(0.5, 6.0)
    pollers.polled(2, 200, 7.0)
    pollers.polled(2, 503, 11.0)
    assert not pollers.flush_is_over(0.5, 11.0)
    pollers.polled(2, 503, 16.0)
    assert pollers.flush_is_over(0.5, 16.0)


def test_without_pollers_there_is_nobody_to_wait_for():
    assert Pollers().flush_is_over(10.0, 10.0)


def test_a_poller_is_somebody_to_wait_for_sixty_seconds_long():
    pollers = Pollers()
    pollers.polled(1, 200, 0.0)
    assert pollers.waiting(POLLER_MEMORY) == 1
    assert pollers.waiting(POLLER_MEMORY + 0.1) == 0


def test_a_closed_connection_counts_for_twelve_seconds():
    pollers = Pollers()
    pollers.polled(1, 200, 0.0)
    pollers.closed(1, 1.0)
    pollers.closed(2, 1.0)
    assert pollers.waiting(1.0 + CLOSED_COUNTS - 0.1) == 1
    assert pollers.waiting(1.0 + CLOSED_COUNTS) == 0


def test_whoever_was_told_twice_may_close_at_once():
    pollers = Pollers()
    pollers.polled(1, 503, 0.0)
    pollers.polled(1, 503, 5.0)
    pollers.closed(1, 5.1)
    assert pollers.flush_is_over(0.0, 5.2)


def test_a_connection_that_a_proxy_keeps_for_several_decodes_was_told_when_each_of_them_had_the_time_to_ask_twice():
    pollers = Pollers()
    pollers.polled(1, 200, 0.0, shared=True)
    # Of three decodes two have asked: twice a no, and nobody has heard it twice.
    for moment in (1.0, 2.0):
        pollers.polled(1, 503, moment, shared=True)
    assert not pollers.flush_is_over(0.5, 2.0)
    for moment in (3.0, 6.0, 7.0, 8.0, 11.0, 12.0, 13.0):
        pollers.polled(1, 503, moment, shared=True)
    assert not pollers.flush_is_over(0.5, 1.0 + CLOSED_COUNTS - 0.1)
    assert pollers.flush_is_over(0.5, 1.0 + CLOSED_COUNTS)
    # A proxy that opens a connection for one request and closes it may come back for another decode.
    pollers.polled(2, 503, 13.0, shared=True)
    pollers.closed(2, 13.1)
    assert not pollers.flush_is_over(12.9, 13.2)


def test_a_decode_that_was_told_the_topology_is_waited_for_until_its_first_poll():
    pollers = Pollers()
    pollers.learned(1.0)
    # It keeps what it was told, and would keep it for ever if its first poll came when all is well again.
    assert not pollers.flush_is_over(1.5, 5.9)
    for moment in (6.0, 11.0):
        pollers.polled(1, 503, moment)
    assert pollers.flush_is_over(1.5, 1.0 + FIRST_POLL_WITHIN)


def test_after_our_restart_the_unknown_count_as_closed_at_that_moment():
    pollers = Pollers(unknown_until=112.0)
    assert not pollers.flush_is_over(100.0, 111.9)
    assert pollers.flush_is_over(100.0, 112.0)


def test_a_flush_ends_after_sixty_seconds_whatever_was_seen():
    pollers = Pollers()
    for moment in range(0, 61, 5):
        pollers.polled(1, 503, moment)
        pollers.polled(1, 200, moment)
    assert not pollers.flush_is_over(0.5, FLUSH_LIMIT)
    assert pollers.flush_is_over(0.5, FLUSH_LIMIT + 0.5)


def test_checks_on_ever_new_connections_are_not_kept_for_ever():
    pollers, most = Pollers(), 0
    pollers.polled(0, 200, 0.0)
    for second in range(1, 3000):
        pollers.polled(second, 200, float(second))
        pollers.closed(second, float(second))
        if second % 5 == 0:
            pollers.polled(0, 200, float(second))
        most = max(most, len(pollers._pollers))
    assert most <= 65 and not pollers.flush_is_over(2999.0, 2999.5), "who keeps polling is waited for"
