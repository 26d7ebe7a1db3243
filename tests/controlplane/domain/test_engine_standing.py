"""What is known of an engine, where it counts: in the verdict, in the word for an instance, among what needs a person."""

from dataclasses import replace

import pytest

from controlplane.domain.attention import Harm
from controlplane.domain.attention_engines import withheld
from controlplane.domain.attention_instances import of_instances
from controlplane.domain.attention_seen import EngineSeen, InstanceSeen, LaunchSeen
from controlplane.domain.engine_health import BLOCKING, State
from controlplane.domain.observed import observed
from controlplane.domain.routable import Engine, Fact, Health, Registration, Subject, Wish, explain

NOW = 10_000.0
PREFILL = Subject(
    name="p",
    role="prefill",
    registration=Registration(True, 3, 8, 8, proven=True),
    health=Health(200, answering=8, verified=8, probeable=8),
    groups=(0, 1),
    watched_at=99.0,
)
DECODE = Subject(name="d", role="decode", registration=Registration(False), health=Health(200))


def with_engine(about: Subject, state: State, **more) -> Subject:
    return replace(about, engine=Engine(state, "http://e is like that", since=50.0, seen_at=98.0, **more))


@pytest.mark.parametrize("about", [PREFILL, DECODE])
@pytest.mark.parametrize("state", State)
def test_only_what_is_proven_makes_it_unroutable_and_each_word_is_said_with_its_ages(about, state):
    verdict = explain(with_engine(about, state))
    assert verdict.routable is (state not in BLOCKING)
    reason = next(reason for reason in verdict.reasons if reason.code == f"engine_{state}")
    assert (reason.fact, reason.blocks, reason.since, reason.seen_at) == (Fact.HEALTH, state in BLOCKING, 50.0, 98.0)
    assert reason.sentence == f"the engine of {about.name} is {state}: http://e is like that"


def test_without_an_engine_that_can_be_asked_nothing_is_said_of_it():
    for about in (PREFILL, DECODE):
        assert explain(about).routable
        assert not [reason for reason in explain(about).reasons if reason.code.startswith("engine_")]
    assert "unknown" in {reason.code for reason in explain(DECODE).reasons}
    assert "unknown" not in {reason.code for reason in explain(with_engine(DECODE, State.UP)).reasons}


def test_a_verdict_that_nobody_renews_stays_and_is_called_old():
    reason = explain(with_engine(PREFILL, State.DOWN, old=True)).reasons[0]
    assert reason.blocks and reason.old


@pytest.mark.parametrize(
    ("about", "state", "word"),
    [
        (PREFILL, State.UP, "up"),
        (PREFILL, State.UNKNOWN, "up"),
        (PREFILL, State.LATE, "degraded"),
        (PREFILL, State.SILENT, "degraded"),
        (PREFILL, State.DOWN, "down"),
        (PREFILL, State.STARTING, "starting"),
        (PREFILL, State.STRANGER, "stranger"),
        (DECODE, State.UNKNOWN, "not_observed"),
        (DECODE, State.UP, "up"),
        (DECODE, State.LATE, "late"),
        (DECODE, State.DOWN, "down"),
        # What speaks louder is said first.
        (replace(PREFILL, registration=Registration(True)), State.DOWN, "missing"),
        (replace(PREFILL, health=Health(503, reason="replaced")), State.DOWN, "flushing"),
    ],
)
def test_one_word_for_what_is_observed(about, state, word):
    assert observed(explain(with_engine(about, state)), engine=state) == word


def seen(about: Subject, state: State, *, since: float = NOW - 100, why: str = "", **more) -> InstanceSeen:
    verdict = explain(with_engine(about, state))
    return InstanceSeen(
        name=about.name,
        role=about.role,
        observed=observed(verdict, engine=state),
        verdict=verdict,
        created_at=0.0,
        current=LaunchSeen(number=3, registered=8, size=8) if about.registration.launch else None,
        engine=EngineSeen(state=state, sentence="it is like that", since=since, why=why, **more),
    )


def told(one: InstanceSeen) -> list[tuple[str, Harm]]:
    return [(concern.state, concern.harm) for concern in of_instances([one], now=NOW)]


@pytest.mark.parametrize("about", [PREFILL, DECODE])
def test_who_takes_no_requests_needs_a_person_and_is_told_of_once(about):
    assert told(seen(about, State.DOWN)) == [("down", Harm.DOWN)]
    assert told(seen(about, State.STRANGER)) == [("stranger", Harm.DOWN)]
    for quiet in (State.UP, State.UNKNOWN, State.LATE):
        assert told(seen(about, quiet)) == []


def test_a_start_is_nobodys_business_for_a_quarter_of_an_hour():
    assert told(seen(DECODE, State.STARTING)) == []
    assert told(seen(DECODE, State.STARTING, since=NOW - 1000)) == [("starting", Harm.STUCK)]


def test_doubt_is_told_as_doubt_and_a_busy_minute_is_none():
    assert told(seen(DECODE, State.SILENT)) == [("silent", Harm.DOUBT)]
    assert told(seen(DECODE, State.LATE, why="busy")) == [("late", Harm.DOUBT)]
    assert told(seen(DECODE, State.LATE, why="busy", since=NOW - 5)) == []
    assert told(seen(DECODE, State.LATE, why="missed")) == []


def test_a_dp_group_that_stands_still_is_told_of_though_its_engine_is_well():
    one = seen(PREFILL, State.UP, load={"still": 1, "still_dp": 3})
    (concern,) = of_instances([one], now=NOW)
    assert (concern.state, concern.harm, concern.name) == ("silent", Harm.PART, "DP group 3 of p")
    assert concern.what == "computes no more, while the others of its engine do" and "DP rank 3" in concern.next
    assert told(seen(PREFILL, State.DOWN, load={"still": 1})) == [("down", Harm.DOWN)], "all of it is worse"
    cordoned = replace(PREFILL, wishes=(Wish("cordoned", None, "anna"),))
    assert told(seen(cordoned, State.UP, load={"still": 1})) == []


@pytest.mark.parametrize(
    ("about", "load", "what"),
    [
        (PREFILL, {"bootstrap": 4}, "do not get on: 4 requests wait in its bootstrap queue for a decode"),
        (DECODE, {"prealloc": 1}, "do not get on: 1 request waits for a KV cache or for memory"),
    ],
)
def test_requests_that_do_not_get_on_for_a_minute_are_told_of_though_everything_is_well(about, load, what):
    def since(seconds: float) -> InstanceSeen:
        return seen(about, State.UP, load={**load, "held_up_since": int(NOW - seconds)})

    assert told(since(59)) == []
    (concern,) = of_instances([since(61)], now=NOW)
    assert (concern.state, concern.harm, concern.what) == ("stalled", Harm.STUCK, what)
    assert concern.name == f"Requests of {about.name}" and concern.since == NOW - 61


def test_what_somebody_wanted_so_needs_nobody():
    cordoned = replace(DECODE, wishes=(Wish("cordoned", None, "anna"),))
    assert told(seen(cordoned, State.DOWN)) == [] and told(seen(cordoned, State.SILENT)) == []


def test_a_pause_of_verdicts_is_one_concern_whoever_it_is_about():
    paused = [replace(seen(DECODE, State.UP, withheld_since=NOW - place), name=f"d{place}") for place in range(3)]
    (concern,) = withheld([*paused, seen(PREFILL, State.UP)])
    assert concern.what == "are paused: 3 engines stopped answering together with most of the others"
    assert concern.since == NOW - 2 and not list(withheld([seen(PREFILL, State.UP)]))
