"""When a round may begin, and how a task stands: tables of what is so and, beside it, what is not."""

from __future__ import annotations

import pytest

from controlplane.domain.attention import Harm
from controlplane.domain.attention_tasks import LateWorkers, of_late_workers, of_tasks
from controlplane.domain.clockwork import HELD_SECONDS, LEAP_SECONDS, Round, Standing, Task, at_rest, leap, turn

NOW = 1000.0


def ended(ago: float) -> Round:
    return Round(number=7, done=7, began_at=NOW - ago, within=30.0)


def running(ago: float) -> Round:
    return Round(number=8, done=7, began_at=NOW - ago, within=30.0)


@pytest.mark.parametrize(
    ("last", "begins", "lost"),
    [
        (Round(), True, ""),
        (ended(1.0), True, ""),
        # Sent twice: by two beats, or late and then on time.
        (ended(0.0), False, ""),
        (ended(0.74), False, ""),
        (ended(0.76), True, ""),
        # Written by a clock that is a little ahead, and by one that was set back.
        (ended(-0.5), False, ""),
        (ended(-3600.0), True, ""),
        (running(2.0), False, ""),
        (running(29.9), False, ""),
        (running(30.1), True, "it was not over within 30 s"),
    ],
)
def test_a_round_begins_when_it_is_due_and_the_one_before_is_over_or_given_up(last, begins, lost):
    found = turn(last, now=NOW, every=1.0, overlaps=False, gone=False)
    assert (found.begins, found.lost) == (begins, lost)
    assert bool(found.why) != found.begins


def test_whose_process_is_gone_is_not_waited_for_but_the_next_round_still_comes_in_its_time():
    assert turn(running(2.0), now=NOW, every=1.0, overlaps=False, gone=True).lost == "the process that ran it is gone"
    assert not turn(running(0.1), now=NOW, every=1.0, overlaps=False, gone=True).begins


def test_rounds_that_may_overlap_do_not_wait_for_each_other():
    found = turn(running(2.0), now=NOW, every=1.0, overlaps=True, gone=False)
    assert (found.begins, found.lost) == (True, "")
    assert not turn(running(0.5), now=NOW, every=1.0, overlaps=True, gone=False).begins


def task(last: Round | None, every: float = 1.0, **more) -> Task:
    return Task(key="check_drains", title="check drains", every=every, last=last, **more)


@pytest.mark.parametrize(
    ("of", "standing"),
    [
        (task(None), Standing.NEVER),
        (task(ended(0.5)), Standing.RUNS),
        (task(ended(4.9)), Standing.RUNS),
        (task(ended(5.1)), Standing.LATE),
        (task(ended(10.1)), Standing.STOPPED),
        # A round may take its time; one that is given up is none.
        (task(running(25.0)), Standing.RUNS),
        (task(running(35.0)), Standing.STOPPED),
        (task(ended(0.5), failures=2), Standing.RUNS),
        (task(ended(0.5), failures=3), Standing.FAILING),
        (task(ended(20.0), failures=3), Standing.STOPPED),
        # Of what runs once an hour a beat that was started anew may put off one round.
        (task(ended(3600 * 1.75), every=3600.0), Standing.RUNS),
        (task(ended(3600 * 2.1), every=3600.0), Standing.LATE),
        (task(ended(3600 * 3.1), every=3600.0), Standing.STOPPED),
        (task(ended(60.0), every=3600.0, failures=1), Standing.FAILING),
    ],
)
def test_a_task_is_late_then_stopped_and_fails_when_that_is_no_accident(of, standing):
    assert of.standing(NOW) is standing
    assert standing.fine == (standing is Standing.RUNS)


def test_all_of_it_is_at_rest_only_when_nothing_that_should_run_all_the_time_does():
    hourly = task(ended(10.0), every=3600.0)
    assert at_rest([task(None), task(ended(60.0)), hourly], now=NOW)
    assert not at_rest([task(ended(0.5)), task(ended(60.0))], now=NOW)
    assert not at_rest([hourly], now=NOW) and not at_rest([], now=NOW)


def told(*tasks: Task) -> list[tuple[Harm, str, str]]:
    found = of_tasks(tasks, heard_at=900.0, ran_by="a pid 1", now=NOW)
    return [(one.harm, one.state, one.name) for one in found]


def test_a_task_that_stopped_or_fails_is_a_concern_and_one_that_is_merely_late_is_not():
    fine, late = task(ended(0.5)), task(ended(6.0))
    assert told(fine, late) == []
    stopped, hourly = task(ended(60.0)), task(ended(36_000.0), every=3600.0)
    assert told(fine, stopped) == [(Harm.STUCK, "stopped", "Task “check drains”")]
    assert told(fine, hourly) == [(Harm.DOUBT, "stopped", "Task “check drains”")]
    failing = task(ended(0.5), failures=5, failing_since=950.0, error="OperationalError: locked")
    (one,) = of_tasks([fine, failing], heard_at=None, ran_by="", now=NOW)
    assert (one.state, one.since, one.why) == ("failing", 950.0, "The last round said: OperationalError: locked.")


def test_when_nothing_runs_that_is_one_concern_and_not_one_for_each_task():
    stopped = [task(ended(60.0)) for _ in range(9)]
    (one,) = of_tasks(stopped, heard_at=940.0, ran_by="a pid 1", now=NOW)
    assert (one.name, one.since) == ("The clockwork", 940.0) and "a pid 1" in one.why
    (never,) = of_tasks([task(None)], heard_at=None, ran_by="", now=NOW)
    assert never.why == "Nobody has ever run it here." and never.since is None


def test_late_workers_are_one_concern_an_instance_and_their_ranks_are_left_to_probes():
    many = LateWorkers("prefill-a", 6, ("w0 (dp0 tp0)", "w1"), 900.0)
    one = LateWorkers("prefill-b", 1, ("w9",), 950.0)
    first, second = of_late_workers([many, one])
    assert (first.state, first.what, first.size) == ("late", "has 6 workers that are late with their heartbeat", 6)
    assert first.why.startswith("w0 (dp0 tp0), w1 and 4 more: nothing was heard") and "decided by probes" in first.why
    assert second.what == "has 1 worker that is late with its heartbeat" and second.since == 950.0


def test_a_round_that_began_later_than_now_is_given_up_by_more_than_it_may_take():
    """Its process may be gone, on another host; the clock has been set back since it began."""
    assert not turn(running(-29.0), now=NOW, every=1.0, overlaps=False, gone=False).begins
    assert turn(running(-3600.0), now=NOW, every=1.0, overlaps=False, gone=False).lost == "it was not over within 30 s"


@pytest.mark.parametrize(
    ("ahead", "error", "failing_since", "held"),
    [
        (60.0, "", None, False),
        (LEAP_SECONDS - 1, "", None, False),
        (LEAP_SECONDS + 1, "", None, True),
        # The rounds after it are on time again, by the same wrong clock.
        (60.0, "Leapt: the clock went ahead", NOW - 1, True),
        (60.0, "Leapt: the clock went ahead", NOW - HELD_SECONDS, False),
        (60.0, "OperationalError: away", NOW - 1, False),
        # It was set right.
        (-1e9, "Leapt: the clock went ahead", NOW + 1e9, False),
    ],
)
def test_after_a_leap_of_the_clock_nothing_is_deleted_for_an_hour_or_until_it_is_set_right(
    ahead, error, failing_since, held
):
    assert bool(leap(ahead=ahead, error=error, failing_since=failing_since, now=NOW)) is held
