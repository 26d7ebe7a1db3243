"""Routable is the conjunction of four facts, and whoever is not is so for a reason that can be said."""

import doctest
from dataclasses import replace

import pytest

from controlplane.domain import routable
from controlplane.domain.routable import (
    Breaker,
    Fact,
    Health,
    Registration,
    Subject,
    Wish,
    explain,
    intent_of,
    of_group,
)

COMPLETE = Registration(True, 3, 8, 8, proven=True, since=10.0)
UP = Health(200, answering=8, verified=8, probeable=8)
GOOD = Subject(
    name="p", role="prefill", registration=COMPLETE, health=UP, groups=(0, 1), selectors=("g1", "g2"), watched_at=99.0
)


def opened(gateway: str, group: int | None = None, state: str = "open", **more) -> Breaker:
    return Breaker(gateway, group, state, 50.0, "5 of 6 requests failed", **more)


def test_examples_hold():
    assert doctest.testmod(routable).failed == 0


def test_every_fact_has_a_judge_and_says_something():
    assert set(routable.JUDGES) == set(Fact)
    verdict = explain(GOOD)
    assert verdict.routable and verdict.because == ""
    assert [(reason.fact, reason.code) for reason in verdict.reasons] == [
        (Fact.REGISTRATION, "complete"),
        (Fact.HEALTH, "up"),
        (Fact.INTENT, "enabled"),
        (Fact.BREAKER, "closed"),
    ]
    assert verdict.reasons[0].since == 10.0 and verdict.reasons[0].seen_at == 99.0


BLOCKS = [
    ({"registration": Registration(True)}, "nobody", "no rank of p is registered"),
    (
        {"registration": Registration(True, 3, 7, 8, missing="7/8, missing dp1 tp3")},
        "incomplete",
        "launch 3 is not complete: 7/8, missing dp1 tp3",
    ),
    (
        {"registration": Registration(True, 3, 8, 8)},
        "unproven",
        "launch 3 has all of its ranks, but is not proven by probes yet",
    ),
    ({"role": "seed"}, "seed", "p is a seed of weights: it takes no requests"),
    (
        {"health": Health(503, 5.0, "launch 2 was replaced")},
        "flushing",
        "/health of p answers 503: launch 2 was replaced",
    ),
    ({"health": Health(503, 5.0, "lost dp0", lost=True)}, "lost_rank", "/health of p answers 503: lost dp0"),
    ({"wishes": (Wish("cordoned", None, "anna", "kernel", 7.0),)}, "cordoned", "p is cordoned by anna: kernel"),
    ({"wishes": (Wish("draining"),)}, "draining", "p is draining"),
    ({"breakers": (opened("g1"), opened("g2"))}, "open", "the breaker of g1 is open: 5 of 6 requests failed"),
]


@pytest.mark.parametrize(("changes", "code", "sentence"), BLOCKS)
def test_one_fact_that_says_no_is_enough_and_is_told_first(changes, code, sentence):
    verdict = explain(replace(GOOD, **changes))
    assert not verdict.routable
    assert (verdict.reasons[0].code, verdict.because) == (code, sentence)
    assert {reason.fact for reason in verdict.reasons} == set(Fact)


def test_who_is_retired_hears_that_first_whatever_else_is_wrong():
    gone = replace(GOOD, registration=Registration(True), health=Health(404), wishes=(Wish("retired", None, "anna"),))
    assert explain(gone).because == "p is retired by anna"
    assert {reason.code for reason in explain(gone).reasons if reason.blocks} == {"retired", "nobody"}


def test_an_incomplete_launch_serves_none_of_its_groups_and_says_why():
    verdict = explain(
        of_group(replace(GOOD, registration=Registration(True, 3, 7, 8, missing="7/8, missing dp1 tp3")), 0)
    )
    assert verdict.because.endswith("until it is complete the directory answers for none of its DP groups")


def test_a_decode_is_routable_although_nobody_registers_there():
    decode = Subject(name="d", role="decode", registration=Registration(False), health=Health(200), selectors=("g",))
    verdict = explain(decode)
    assert verdict.routable
    assert [reason.code for reason in verdict.reasons] == ["not_expected", "unknown", "enabled", "closed"]
    assert not explain(replace(decode, wishes=(Wish("cordoned"),))).routable


def test_one_group_s_intent_stops_that_group_and_the_last_one_stops_the_instance():
    one = replace(GOOD, wishes=(Wish("enabled"), Wish("draining", 1, "bob", "")))
    assert explain(one).routable
    assert "DP group 1 is draining by bob" in [reason.sentence for reason in explain(one).reasons]
    assert explain(of_group(one, 0)).routable
    assert explain(of_group(one, 1)).because == "DP group 1 of p is draining by bob"
    both = replace(one, wishes=(Wish("cordoned", 0), Wish("draining", 1)))
    assert explain(both).because == (
        "none of the 2 DP groups is routable: DP group 0 of p is cordoned; DP group 1 of p is draining"
    )


def test_two_groups_can_be_closed_for_different_reasons():
    mixed = replace(GOOD, wishes=(Wish("cordoned", 0),), breakers=(opened("g1", 1), opened("g2", 1)))
    assert not explain(mixed).routable
    assert explain(mixed).reasons[0].code == "groups"
    assert explain(replace(mixed, groups=(0, 1, 2))).routable


def test_the_intent_of_the_instance_comes_before_that_of_a_group():
    wishes = (Wish("cordoned", None), Wish("draining", 1))
    assert [intent_of(wishes, group) for group in (None, 0, 1)] == ["cordoned"] * 3
    assert [intent_of(wishes[1:], group) for group in (None, 0, 1)] == ["enabled", "enabled", "draining"]


def test_a_breaker_keeps_away_its_own_gateway_and_no_other():
    one = replace(GOOD, breakers=(opened("g1"),))
    assert explain(one).routable
    assert "the breaker of g1 is open: 5 of 6 requests failed" in [reason.sentence for reason in explain(one).reasons]
    assert not explain(replace(one, selectors=("g1",))).routable
    assert explain(replace(one, selectors=("g2",))).routable
    half = replace(GOOD, selectors=("g1",), breakers=(opened("g1", state="half_open"),))
    assert explain(half).routable and explain(half).reasons[-1].code == "half_open"
    # Of a gateway that has left.
    assert explain(replace(GOOD, breakers=(opened("g9"),), selectors=("g1",))).reasons[-1].code == "closed"
    assert explain(replace(GOOD, selectors=())).reasons[-1].code == "no_gateway"


def test_a_breaker_of_one_group_does_not_stop_the_others():
    one = replace(GOOD, selectors=("g1",), breakers=(opened("g1", 1),))
    assert explain(one).routable and explain(of_group(one, 0)).routable
    assert not explain(of_group(one, 1)).routable


def test_a_verdict_that_nobody_renews_stays_and_is_shown_as_old():
    unwatched = explain(replace(GOOD, watched=False, watched_at=40.0))
    assert unwatched.routable
    assert [(reason.fact, reason.old) for reason in unwatched.reasons] == [
        (Fact.REGISTRATION, True),
        (Fact.HEALTH, True),
        (Fact.INTENT, False),
        (Fact.BREAKER, False),
    ]
    restarted = explain(replace(GOOD, health=Health(200, answering=5, verified=6, probeable=8)))
    assert restarted.routable
    (health,) = [reason for reason in restarted.reasons if reason.fact is Fact.HEALTH]
    assert (
        health.old and health.sentence == "/health of p answers 200; 2 of 8 ranks did not answer a probe in this term"
    )
    silent = explain(replace(GOOD, selectors=("g1",), breakers=(opened("g1", old=True, heard_at=3.0),)))
    assert not silent.routable and silent.reasons[0].old


def test_ranks_that_cannot_be_probed_from_here_are_no_reason_against():
    verdict = explain(replace(GOOD, health=Health(200)))
    assert verdict.routable
    assert "none of its ranks can be probed from here" in verdict.reasons[1].sentence
