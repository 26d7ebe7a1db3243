"""What each answer of an engine does to what is known of it."""

from dataclasses import replace

import pytest

from controlplane.domain.engine_health import (
    BLOCKING,
    Answer,
    Heard,
    Memory,
    Rule,
    State,
    Why,
    contradicts,
    hear,
    withhold,
)
from controlplane.domain.engine_words import sentence

WELL, BAD = Heard(Answer.WELL, 200), Heard(Answer.UNWELL, 503, error="its /health answers 503")
REFUSED = Heard(Answer.REFUSED, error="it refused the connection")
HUNG = Heard(Answer.TIMEOUT, error="it accepted the connection: no answer within 5 s")
AWAY = Heard(Answer.UNREACHED, error="no connection came about")
OTHER = Heard(Answer.STRANGER, 200, error="it does not say what it is", why=Why.STRANGE)
RULE = Rule()
BUSY = Heard(Answer.UNWELL, 503, error="its /health answers 503", computes=True)
SERVING = Memory("http://e", State.UP, since=1.0, answered_at=1.0, proof_at=1.0, served=True, passes=2)


def after(*heard: Heard, memory: Memory = SERVING, rule: Rule = RULE, every: float = 1.0) -> Memory:
    for place, one in enumerate(heard):
        memory = hear(memory, one, rule, 2.0 + place * every)
    return memory


@pytest.mark.parametrize(
    ("memory", "heard", "state", "why"),
    [
        (Memory("http://e"), [WELL], State.UP, None),
        (Memory("http://e"), [BAD], State.STARTING, None),
        (Memory("http://e"), [BAD] * 500, State.STARTING, None),
        (Memory("http://e"), [BAD, WELL], State.UP, None),
        (Memory("http://e"), [REFUSED] * 2, State.UNKNOWN, None),
        (Memory("http://e"), [REFUSED] * 3, State.DOWN, Why.REFUSED),
        # Nobody ever reached it from here: that is not its fault.
        (Memory("http://e"), [AWAY] * 500, State.UNKNOWN, None),
        (Memory("http://e"), [HUNG] * 500, State.UNKNOWN, None),
        (Memory("http://e"), [OTHER] * 3, State.STRANGER, Why.STRANGE),
        (SERVING, [REFUSED], State.UP, None),
        (SERVING, [REFUSED] * 2, State.LATE, Why.MISSED),
        (SERVING, [REFUSED, WELL, REFUSED, WELL, REFUSED], State.UP, None),
        (SERVING, [REFUSED] * 2 + [WELL], State.UP, None),
        (SERVING, [REFUSED] * 3, State.DOWN, Why.REFUSED),
        (SERVING, [REFUSED] * 3 + [WELL], State.DOWN, Why.REFUSED),
        (SERVING, [REFUSED] * 3 + [WELL] * 2, State.UP, None),
        # Whoever answers after its process ended has to start first.
        (SERVING, [REFUSED] * 3 + [BAD], State.STARTING, None),
        (SERVING, [HUNG] * 3, State.SILENT, Why.TIMEOUT),
        (SERVING, [AWAY] * 3, State.SILENT, Why.UNREACHED),
        (SERVING, [HUNG] * 29, State.SILENT, Why.TIMEOUT),
        (SERVING, [HUNG] * 40, State.DOWN, Why.LOST),
        (SERVING, [HUNG] * 40 + [REFUSED], State.DOWN, Why.REFUSED),
        (SERVING, [REFUSED] * 3 + [AWAY] * 60, State.DOWN, Why.REFUSED),
        (SERVING, [HUNG] * 3 + [WELL], State.SILENT, Why.TIMEOUT),
        (SERVING, [HUNG] * 3 + [WELL] * 2, State.UP, None),
        # It says itself that it is not well: busy as long as it computes, and not well when it does not.
        (SERVING, [BAD] * 3, State.DOWN, Why.FAILING),
        (SERVING, [BUSY], State.UP, None),
        (SERVING, [BUSY] * 90, State.LATE, Why.BUSY),
        (SERVING, [BUSY] * 90 + [WELL], State.UP, None),
        (SERVING, [Heard(Answer.TIMEOUT, computes=True)] * 90, State.LATE, Why.BUSY),
        (SERVING, [OTHER] * 3, State.STRANGER, Why.STRANGE),
        (SERVING, [OTHER] * 3 + [AWAY] * 5, State.STRANGER, Why.STRANGE),
        (SERVING, [OTHER] * 3 + [AWAY] * 60, State.DOWN, Why.LOST),
        (SERVING, [Heard(Answer.UNASKED, error="forbidden")] * 500, State.UP, None),
    ],
)
def test_what_is_known_after_such_answers(memory, heard, state, why):
    known = after(*heard, memory=memory)
    assert known.verdict == (state, why)
    assert sentence(known)


def test_thresholds_hold_in_both_directions_and_are_the_rules():
    strict, patient = Rule(fails=1, passes=1), Rule(fails=10, passes=4)
    assert after(REFUSED, rule=strict).state is State.DOWN and after(REFUSED, WELL, rule=strict).state is State.UP
    assert after(*[REFUSED] * 9, rule=patient).state is State.LATE
    assert after(*[REFUSED] * 10, *[WELL] * 3, rule=patient).state is State.DOWN
    assert after(*[REFUSED] * 10, *[WELL] * 4, rule=patient).state is State.UP


def test_another_start_of_the_engine_has_not_served_yet():
    first, second = (Heard(Answer.WELL, 200, identity=start, said={"mode": "prefill"}) for start in "ab")
    known = after(first)
    assert after(BAD, memory=known).state is State.UP, "one miss of who served is a miss"
    starting = Heard(Answer.UNWELL, 503, identity="b", said={"mode": "prefill"})
    assert after(starting, memory=known).state is State.STARTING
    assert after(second, memory=known).state is State.UP


def test_during_a_pause_nothing_turns_and_everything_is_shown():
    known = SERVING
    for moment in range(50):
        known = withhold(known, REFUSED, 2.0 + moment)
    assert known.verdict == SERVING.verdict and known.fails == 0
    assert (known.withheld_since, known.error, known.error_at) == (2.0, "it refused the connection", 51.0)
    assert after(WELL, memory=known).withheld_since is None


def test_counts_go_no_further_than_the_rule_asks_so_that_a_long_story_is_written_once():
    known = after(*[REFUSED] * 100)
    assert (known.fails, known.passes) == (3, 0)
    assert after(*[WELL] * 100).passes == 2


def test_since_is_when_the_word_became_true_and_ages_stand_beside_it():
    known = after(*[HUNG] * 3, *[HUNG] * 5)
    assert known.state is State.SILENT and known.since == 4.0 and known.proof_at == 1.0 and known.asked_at == 9.0


def test_who_answers_otherwise_than_expected_is_asked_again():
    assert contradicts(SERVING, Answer.REFUSED) and contradicts(Memory("http://e"), Answer.WELL)
    assert not contradicts(SERVING, Answer.WELL) and not contradicts(after(*[REFUSED] * 3), Answer.REFUSED)
    assert not contradicts(SERVING, Answer.UNASKED)


def test_only_what_is_proven_keeps_work_away():
    assert {State.STARTING, State.DOWN, State.STRANGER} == BLOCKING


def test_a_sentence_holds_what_others_sent_as_it_is():
    known = Memory("http://e", error="{0} {at} }{")
    assert sentence(known) == "http://e has never answered from here: {0} {at} }{"


@pytest.mark.parametrize("back", [100.0, 3600.0, 1e9], ids=["minutes", "an hour", "decades"])
def test_an_engine_that_hangs_is_lost_in_its_time_though_the_clock_was_set_back(back):
    before, begun = 2e9, 2e9 - back
    memory = Memory("http://e", State.UP, since=before, answered_at=before, proof_at=before, served=True, passes=2)
    memory = replace(memory, asked_at=before, identified_at=before, load_at=before)
    turned = {}
    for second in range(40):
        memory = hear(memory, HUNG, RULE, begun + second)
        turned.setdefault(memory.verdict, second)
    assert turned[State.SILENT, Why.TIMEOUT] == 2 and turned[State.DOWN, Why.LOST] == RULE.lost_after
    # Who it is and what it holds is asked again in its turn, too.
    assert memory.identified_at == memory.load_at == begun


def test_what_is_withheld_is_dated_anew_too_after_the_clock_was_set_back():
    memory = withhold(Memory("http://e", State.UP, since=9e8, answered_at=9e8), HUNG, 9e8)
    assert withhold(memory, HUNG, 5e8).withheld_since == withhold(memory, HUNG, 5e8).answered_at == 5e8


NOTHING = dict.fromkeys(("running", "waiting", "bootstrap", "inflight", "prealloc", "transfer", "retracted"), 0)


def looks(*loads: dict[str, int], every: float = 10.0) -> list[int | None]:
    """Since when nothing gets on, after each look at such a load."""
    memory, found = SERVING, []
    for place, load in enumerate(loads):
        memory = hear(memory, replace(WELL, load={**NOTHING, **load}), RULE, 1000.0 + place * every)
        found.append(memory.load.get("held_up_since"))
    return found


WAITS = {"bootstrap": 3, "waiting": 3}


@pytest.mark.parametrize(
    ("loads", "since"),
    [
        ([WAITS, WAITS, WAITS], [1000, 1000, 1000]),
        ([WAITS, {"bootstrap": 9, "waiting": 9}], [1000, 1000]),
        # One got on, or was given up: the others may be next.
        ([WAITS, {"bootstrap": 2, "waiting": 2}], [1000, 1010]),
        ([WAITS, {**WAITS, "inflight": 1}, WAITS], [1000, None, 1020]),
        ([{**WAITS, "running": 1}, {"bootstrap": 3, "waiting": 4}, {}], [None, None, None]),
        ([{"prealloc": 2, "waiting": 2}, {"prealloc": 1, "transfer": 1, "waiting": 2}], [1000, 1000]),
        ([{"prealloc": 2, "waiting": 3, "retracted": 1}, {"transfer": 2, "running": 5, "waiting": 2}], [None, None]),
    ],
)
def test_since_when_nothing_of_what_waits_gets_on(loads, since):
    assert looks(*loads) == since


def test_what_happened_while_nobody_looked_is_not_claimed():
    assert looks(WAITS, WAITS, every=60.0) == [1000, 1060]
    unknown = {name: count for name, count in WAITS.items() if name != "bootstrap"}
    memory = hear(SERVING, replace(WELL, load=unknown), RULE, 1000.0)
    assert "held_up_since" not in memory.load, "an engine that does not tell its queues"
    ahead = replace(SERVING, load={**NOTHING, **WAITS, "held_up_since": 5000}, load_at=990.0)
    assert hear(ahead, replace(WELL, load={**NOTHING, **WAITS}), RULE, 1000.0).load["held_up_since"] == 1000
