"""What to ask an observed engine's servers next, and what their answers mean."""

import doctest
from dataclasses import replace

import pytest

from controlplane.domain import observing
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Directory
from controlplane.domain.launch import CONFIRM_AFTER
from controlplane.domain.observation import observe
from controlplane.domain.observing import (
    GAP_LASTS,
    IDENTITY_LASTS,
    LISTED_LASTS,
    UNANSWERED_ROUNDS,
    WEIGHTS_GAP_LASTS,
    WEIGHTS_LAST,
    Heard,
    Memory,
    State,
    hear,
    identify,
    missing_again,
    ranks_of,
    registrations,
    restored,
    sentence,
    stored,
    token_of,
    wants_identity,
    wants_slots,
    wants_weights,
    weighed,
)
from controlplane.domain.registration import register
from controlplane.domain.topology import SharedFacts, Slot, Topology

PAIR = Topology(1, 1, 2, 1)
FACTS = SharedFacts(64, "auto")
LISTED = Heard(State.LISTED, PAIR, FACTS)
A, B = Slot(0, 0, 0, 0), Slot(0, 0, 1, 0)
HERE = {A: ("10.0.0.1", 4001), B: ("10.0.0.1", 4002)}
ELSEWHERE = {A: ("10.0.0.1", 4101), B: ("10.0.0.1", 4102)}
AT = Memory(at="http://10.0.0.1:8998")


def read(directory, listed, *, token=None, now=100.0):
    puts = registrations(PAIR, FACTS, listed, token=token, http_port=None, flags={})
    for put in puts:
        decision = register(directory, put, now)
        assert decision.refused is None
        directory = decision.directory
    return directory


def answering(directory, *addresses, now=100.0):
    return observe(directory, dict.fromkeys(addresses, Contact.UP), now).directory


def test_a_refusal_counts_when_it_comes_again():
    up = hear(AT, LISTED, 10.0)
    once = hear(up, Heard(State.REFUSED), 11.0)
    assert once.state is State.LISTED
    assert hear(once, Heard(State.REFUSED), 11.0 + CONFIRM_AFTER / 2).state is State.LISTED
    twice = hear(once, Heard(State.REFUSED), 11.0 + CONFIRM_AFTER)
    assert (twice.state, twice.since, twice.answered_at) == (State.REFUSED, 11.0 + CONFIRM_AFTER, 10.0)
    assert hear(hear(once, LISTED, 11.1), Heard(State.REFUSED), 12.0).state is State.LISTED, "an answer forgives"


def test_silence_changes_nothing_before_it_has_lasted_some_rounds():
    memory = hear(AT, LISTED, 10.0)
    for round_ in range(UNANSWERED_ROUNDS - 1):
        memory = hear(memory, Heard(State.SILENT), 11.0 + round_)
        assert memory.state is State.LISTED
    assert hear(memory, Heard(State.SILENT), 20.0).state is State.SILENT


def test_every_slot_is_read_when_something_changed_or_somebody_is_missing_and_else_once_a_minute():
    memory = hear(AT, LISTED, 1010.0)
    empty = Directory("a")
    assert wants_slots(memory, empty, 1010.0)
    memory = replace(memory, listed_at=1010.0)
    assert not wants_slots(memory, empty, 1010.0 + GAP_LASTS - 1) and wants_slots(memory, empty, 1010.0 + GAP_LASTS)
    whole = read(empty, HERE)
    assert not wants_slots(memory, whole, 1010.0 + LISTED_LASTS - 1) and wants_slots(
        memory, whole, 1010.0 + LISTED_LASTS
    )
    assert not wants_slots(hear(memory, LISTED, 1012.0), whole, 1012.0), "the same once more is no change"
    other = Heard(State.LISTED, Topology(1, 1, 4, 1), FACTS)
    assert wants_slots(hear(memory, other, 1012.0), whole, 1012.0)
    assert wants_slots(identify(memory, "start-another start", {}, 1012.0), whole, 1012.0)
    back = hear(hear(memory, Heard(State.FILLING, count=1), 1012.0), LISTED, 1013.0)
    assert wants_slots(back, whole, 1013.0)
    assert not wants_slots(hear(memory, Heard(State.FILLING, count=1), 1012.0), whole, 1099.0), "it would not tell"


def test_whoever_was_away_is_asked_again_who_it_is():
    memory = identify(hear(AT, LISTED, 10.0), "start-one", {}, 10.0)
    assert not wants_identity(memory, 11.0) and wants_identity(memory, 10.0 + IDENTITY_LASTS)
    gone = hear(hear(memory, Heard(State.REFUSED), 11.0), Heard(State.REFUSED), 12.0)
    assert wants_identity(hear(gone, LISTED, 12.5), 12.5)


def test_the_start_of_the_engine_is_the_token_of_its_launch():
    memory = identify(hear(AT, LISTED, 10.0), "start-one", {}, 10.0)
    token, memory = token_of(Directory("a"), memory, HERE)
    assert token == "start-one"
    directory = read(Directory("a"), HERE, token="start-one")
    assert token_of(directory, memory, HERE)[0] == "start-one"
    # On the same addresses: nothing but its start tells that it is another.
    assert token_of(directory, identify(memory, "start-two", {}, 20.0), HERE)[0] == "start-two"


def test_a_launch_that_came_before_its_engine_could_be_asked_goes_on_under_its_own_token():
    memory = hear(AT, LISTED, 10.0)
    token, memory = token_of(Directory("a"), memory, HERE)
    assert token is None
    directory = read(Directory("a"), HERE)
    token, memory = token_of(directory, identify(memory, "start-one", {}, 11.0), HERE)
    assert (token, memory.bound) == (None, (1, "start-one")), "the engine serves now, and it is this launch"
    # A rank of that start moved; then the engine could not be asked for a while.
    assert token_of(directory, memory, {**HERE, B: ("10.0.0.1", 4009)})[0] is None
    assert token_of(directory, replace(memory, identity=""), HERE)[0] is None
    # Another start at the same addresses is another launch.
    assert token_of(directory, identify(memory, "start-two", {}, 12.0), HERE)[0] == "start-two"


def test_who_is_not_listed_any_more_leaves_unless_a_probe_can_tell():
    directory = answering(read(Directory("a"), HERE), HERE[A])
    gone = missing_again(directory, {}, why="nobody lists it", now=101.0)
    assert [(e.row.slot, e.reason) for e in gone.events if e.kind == "rank.left"] == [(B, "nobody lists it")]
    assert not missing_again(directory, HERE, why="", now=101.0).events


def test_a_restart_elsewhere_of_ranks_that_nobody_can_probe_replaces_them():
    directory = read(Directory("a"), HERE)
    directory = observe(directory, dict.fromkeys(HERE.values(), Contact.UNREACHED), 100.0).directory
    assert directory.current.complete
    directory = read(directory, ELSEWHERE, now=200.0)
    directory = missing_again(directory, ELSEWHERE, why="not listed", now=200.0).directory
    assert {row.address for row in directory.current.rows.values()} == set(ELSEWHERE.values())
    assert directory.candidate is None


def test_weights_are_asked_for_often_until_all_have_published():
    memory = weighed(AT, frozenset({0}), 2, 10.0)
    assert wants_weights(memory, {0}, 10.0 + WEIGHTS_GAP_LASTS)
    memory = weighed(memory, frozenset({0, 1}), 2, 20.0)
    assert not wants_weights(memory, {0, 1}, 20.0 + WEIGHTS_GAP_LASTS)
    assert wants_weights(memory, {0, 1}, 20.0 + WEIGHTS_LAST)
    assert wants_weights(memory, {0}, 20.0 + WEIGHTS_GAP_LASTS), "a session ended: it may have come again"


def test_where_nobody_knows_how_many_ranks_there_are_a_second_look_must_see_no_more():
    once = weighed(AT, frozenset({0, 1}), None, 10.0)
    assert not once.whole and weighed(once, frozenset({0, 1}), None, 20.0).whole
    assert not weighed(once, frozenset({0, 1, 2}), None, 20.0).whole
    assert not weighed(weighed(AT, frozenset(), None, 10.0), frozenset(), None, 20.0).whole


def test_an_engine_knows_how_many_keys_its_weights_have():
    assert ranks_of(None, {"world_tp_size": 8}) == 8
    assert ranks_of(Topology(2, 1, 4, 2), {}) == 8
    assert ranks_of(None, {}) is None


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_sentence_and_outlives_a_restart_of_ours(state):
    memory = replace(AT, state=state, why="why", count=3, since=1.0, bound=(2, "x"), said={"tp_size": 2})
    assert sentence(memory).startswith("http://10.0.0.1:8998 ")
    assert restored(stored(memory)) == memory
    assert restored("") == Memory()


def test_its_examples_are_true():
    assert doctest.testmod(observing).failed == 0
