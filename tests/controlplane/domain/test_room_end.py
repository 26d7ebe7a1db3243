"""Where the way of a room stops, as workers tell it: failures first, then the first gap; and its timeline."""

import doctest
from dataclasses import replace

import pytest

from controlplane.domain import claims, evidence, reports, room_end, room_timeline
from controlplane.domain.claims import RUNGS, Asked, Displaced, Follower, Held, Knowledge, Said, Standing
from controlplane.domain.evidence import ladder
from controlplane.domain.room_timeline import timeline

ROOM, NOW = 9, 130.0
HERE = Held("p", 1, 100.0, True, 3, 4, False, "")
GONE = "dp1 tp0 at 10.0.0.1:4002 is gone since 10:02:11 UTC: it refuses connections"


def said(
    rung: str, result: str = "passed", *, at: float = 101.0, who: str = "d/1", instance: str = "p", **more
) -> Said:
    return Said(rung, result, who, instance, at, **more)


def up_to(last: str) -> list[Said]:
    """Every rung after the first, as a decode tells it, a second apart."""
    return [said(rung, at=101.0 + n) for n, rung in enumerate(RUNGS[1 : RUNGS.index(last) + 1])]


def end(*told: Said, held=(HERE,), followers=(), now: float = NOW):
    return ladder(ROOM, held, followers, said=told, now=now).conclusion


def test_a_healthy_room_is_consumed_and_all_its_rungs_are_proven():
    found = ladder(ROOM, [HERE], said=up_to("consumed"), now=NOW)
    assert (found.proven, found.conclusion.kind, found.conclusion.next) == (5, "consumed", "")
    assert found.conclusion.sentence == "d/1 took the KV of p at 00:01:44 UTC; all 5 rungs are proven."


@pytest.mark.parametrize(
    ("last", "missing"), [("resolved", "connect"), ("connected", "transfer"), ("verified", "word")]
)
def test_it_stops_at_the_last_rung_that_is_proven_and_says_what_was_not_seen(last, missing):
    told = up_to(last)
    found = end(*told)
    assert (found.kind, found.head) == ("stops", f"Stops at {last}.")
    assert (
        f"; no {missing}" in found.sentence and "seen within 5 s." in found.sentence and found.next.startswith("Look")
    )
    soon = end(*told, now=told[-1].at + 2)
    assert "2 s ago; the next may be on its way" in soon.sentence and soon.next == ""


def test_ranks_that_are_gone_are_why_it_stops_and_where_to_look():
    found = end(*up_to("resolved"), held=[replace(HERE, doubts=(GONE,))])
    assert found.head == "In doubt at resolved." and found.next.endswith("look at the ranks of p.")
    assert found.sentence == f"Resolved at 00:01:41 UTC; no connect seen within 5 s; p dp1 holds it, and {GONE}."
    follower = Follower("p", 4, "", (GONE,))
    assert end(*up_to("resolved"), held=(), followers=[follower]).kind == "gaps", "nobody saw it registered"
    both = [said("registered", at=100.0, who="p/1"), *up_to("resolved")]
    assert end(*both, held=(), followers=[follower]).sentence.endswith(f"no connect seen within 5 s; {GONE}.")


def test_a_failure_is_said_with_who_when_and_what_explains_it():
    failed = said("verified", "other_room", at=103.0, detail="the metadata is of room 7")
    found = end(*up_to("connected"), failed)
    assert (found.kind, found.head) == ("failed", "Failed at verified.")
    assert found.sentence == "d/1 reports other room at 00:01:43 UTC, with p: the metadata is of room 7."
    assert "new room" in found.next
    twice = replace(HERE, displaced=(Displaced(0, 1, 99.0),))
    explained = end(failed, held=[twice])
    assert "P bound it to dp1 while its binding to dp0 was alive" in explained.sentence
    assert "Whoever mints rooms" in explained.next
    unreachable = said("connected", "unreachable", detail="10.0.0.1:4002 refuses")
    for how in ({"held": [replace(HERE, doubts=(GONE,))]}, {"held": (), "followers": [Follower("p", 4, "", (GONE,))]}):
        assert "is gone since 10:02:11 UTC" in end(unreachable, **how).sentence
    away = end(unreachable, held=(), followers=[Follower("p", 4, "p is not serving")])
    assert away.sentence.endswith("P is not serving.") and away.next == "Look at p."


def test_the_last_word_of_a_worker_counts_and_one_that_failed_is_not_outvoted():
    again = [said("connected", "failed", at=101.0), said("connected", at=102.0)]
    assert ladder(ROOM, [HERE], said=[said("resolved"), *again], now=NOW).rungs[2].standing is Standing.PASSED
    other = [said("connected", "failed", at=101.0, who="d/2"), said("connected", at=102.0)]
    found = ladder(ROOM, [HERE], said=other, now=NOW)
    assert found.rungs[2].standing is Standing.FAILED
    assert [(claim.who, claim.trouble) for claim in found.rungs[2].claims] == [("d/2", True), ("d/1", False)]


def test_a_gap_below_what_is_proven_is_named_and_nothing_is_made_up_for_it():
    found = ladder(ROOM, [HERE], said=[said("verified"), said("consumed")], now=NOW)
    assert found.proven == 3 and found.conclusion.kind == "gaps" and found.conclusion.head == "Stops at registered."
    assert "verified and consumed are proven" in found.conclusion.sentence
    assert [rung.standing for rung in found.rungs][1:3] == [Standing.NOT_OBSERVED] * 2


def test_a_binding_that_is_over_was_there_when_the_room_went_on():
    old = replace(HERE, live=False)
    assert ladder(ROOM, [old], said=up_to("consumed"), now=NOW).proven == 5
    assert ladder(ROOM, [old], now=NOW).rungs[0].standing is Standing.EXPIRED


def test_a_decode_that_asks_another_prefill_than_the_one_that_holds_it_is_in_doubt():
    found = end(said("resolved", instance="q"))
    assert (found.kind, found.head) == ("trouble", "In doubt at resolved.")
    assert found.sentence == "p dp1 holds this room, but d/1 reports of it with q."


def test_what_the_bootstrap_process_saw_is_observed_and_an_answer_proves_that_it_was_resolved():
    waiting, told = Asked("p", 101.0, "10.0.0.9", None), Asked("p", 101.0, "10.0.0.9", 104.0)
    unanswered = ladder(ROOM, [HERE], asked=[waiting], now=NOW)
    assert unanswered.rungs[1].standing is Standing.NOT_OBSERVED and "has not been told" in str(
        unanswered.rungs[1].claims
    )
    found = ladder(ROOM, [HERE], asked=[told], now=NOW)
    assert found.rungs[1].standing is Standing.PASSED and found.conclusion.head == "Stops at resolved."
    assert found.rungs[1].claims[0].knowledge is Knowledge.OBSERVED
    moments = {one.name: one for one in timeline([HERE], [], [told])}
    assert (moments["first asked"].at, moments["answered"].at) == (101.0, 104.0)
    assert moments["answered"].sentence == "told 10.0.0.9, 3 s later" and moments["created"].at == 100.0


def test_a_timeline_of_a_room_that_nobody_saw_has_no_time_at_all():
    assert {(one.knowledge, one.at) for one in timeline([], [])} == {(Knowledge.NOT_OBSERVED, None)}


def test_a_timeline_ends_with_the_first_failure():
    told = [
        said("connected", "no_memory", at=105.0, detail="none of 256 pages is free"),
        said("verified", "failed", at=109.0),
    ]
    last = timeline([HERE], told)[-1]
    assert (last.at, last.sentence) == (105.0, "no_memory at connected: none of 256 pages is free")


def test_few_of_many_workers_are_quoted_those_with_trouble_first():
    many = [said("connected", who=f"d/{n}") for n in range(100)] + [said("connected", "failed", who="bad")]
    claims_of = ladder(ROOM, [HERE], said=many, now=NOW).rungs[2].claims
    assert len(claims_of) == evidence.MOST_CLAIMS and claims_of[0].who == "bad"


@pytest.mark.parametrize("module", [claims, evidence, reports, room_end, room_timeline])
def test_examples_hold(module):
    assert doctest.testmod(module).failed == 0


def test_whoever_says_why_is_believed_before_whoever_says_that_the_other_side_gave_up_a_moment_earlier():
    gave_up = said("verified", "failed", at=101.0, who="p/1", detail="the decode rank gave the room up")
    why = said("verified", "other_room", at=101.4, detail="the metadata is of room 10, not of 9")
    assert end(gave_up, why).sentence == (
        "d/1 reports other room at 00:01:41 UTC, with p: the metadata is of room 10, not of 9."
    )
    late = replace(why, at=104.0)
    assert end(gave_up, late).sentence.startswith("p/1 reports failed"), "by then it may be another use of the number"
