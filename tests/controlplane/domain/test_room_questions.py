"""A room as questions: each rung one answer, and what explains a failure is the cause, not the failure."""

from dataclasses import replace

from controlplane.domain.claims import RUNGS, Displaced, Follower, Held, Said
from controlplane.domain.evidence import ladder
from controlplane.domain.questions import Answer, Verdict
from controlplane.domain.room_questions import KEYS, ask

ROOM, NOW = 9, 130.0
HERE = Held("p", 1, 100.0, True, 3, 4, False, "")


def said(rung: str, result: str = "passed", *, at: float = 101.0, who: str = "d/1", instance: str = "p") -> Said:
    return Said(rung, result, who, instance, at, "as told")


def asked(*told: Said, held=(HERE,), followers=()) -> dict[str, Answer]:
    found = ladder(ROOM, held, followers, said=told, now=NOW)
    answers = ask(ROOM, found, held, followers, told)
    assert tuple(answer.key for answer in answers) == KEYS
    return {answer.key: answer for answer in answers}


def causes(answers: dict[str, Answer]) -> list[tuple[str, str]]:
    return [(answer.key, answer.code) for answer in answers.values() if answer.is_cause]


def test_of_a_room_that_nobody_reports_only_the_binding_is_claimed():
    found = asked()
    assert {key: answer.verdict for key, answer in found.items() if answer.verdict is Verdict.YES}.keys() == {
        "holder",
        "serving",
        "registered",
    }
    assert causes(found) == []
    assert found["registered"].at == 100.0 and "Nobody saw it" in found["consumed"].sentence


def test_a_room_that_went_all_the_way_is_yes_throughout():
    found = asked(*[said(rung, at=101.0 + n) for n, rung in enumerate(RUNGS[1:])])
    assert {answer.verdict for answer in found.values()} == {Verdict.YES}


def test_a_failure_is_named_by_the_word_of_whoever_saw_it():
    found = asked(said("resolved"), said("connected"), said("verified", "other_room", at=103.0))
    assert causes(found) == [("verified", "other_room")]
    assert found["verified"].at == 103.0 and "new room" in found["verified"].next


def test_of_two_that_saw_it_fail_the_one_that_says_why_is_quoted_as_the_conclusion_does():
    echo = said("connected", "aborted", at=102.0, who="p/1")
    why = replace(said("connected", "timed_out", at=102.5), detail="10.0.0.1:4001 took too long")
    found = asked(echo, why)
    assert causes(found) == [("connected", "timed_out")] and "took too long" in found["connected"].sentence
    concluded = ladder(ROOM, (HERE,), (), said=(echo, why), now=NOW).conclusion
    assert "took too long" in concluded.sentence


def test_what_a_worker_took_back_is_not_quoted():
    first, then = said("connected", "timed_out", at=102.0), said("connected", at=103.0)
    found = asked(first, then, said("connected", "unreachable", at=104.0, who="d/2"))
    assert causes(found) == [("connected", "unreachable")]


def test_what_failed_later_follows_from_what_failed_before():
    found = asked(said("connected", "unreachable"), said("verified", "aborted", at=104.0))
    assert causes(found) == [("connected", "unreachable")] and found["verified"].follows == "connected"


def test_a_rank_that_is_gone_explains_that_nobody_reached_it():
    found = asked(said("connected", "unreachable"), held=(replace(HERE, doubts=("dp1 tp0 is gone",)),))
    assert causes(found) == [("serving", "doubted")] and found["connected"].follows == "serving"


def test_a_binding_that_is_over_is_expired_and_nothing_else():
    found = asked(held=(replace(HERE, live=False),))
    assert causes(found) == [("registered", "expired")] and found["registered"].next
    assert found["holder"].verdict is Verdict.NOT_OBSERVED


def test_two_holders_two_claims_and_a_stray_decode_make_it_unclear():
    assert causes(asked(held=(HERE, replace(HERE, instance="q")))) == [("holder", "in_several")]
    taken = replace(HERE, displaced=(Displaced(0, 1, 100.5),))
    assert causes(asked(held=(taken,))) == [("holder", "claimed_twice")]
    assert causes(asked(said("resolved", instance="q"))) == [("holder", "elsewhere")]


def test_a_prefill_that_follows_the_room_is_found_by_who_reports_of_it():
    follower = Follower("p", 4, "", ())
    assert asked(held=(), followers=(follower,))["holder"].verdict is Verdict.NOT_OBSERVED, "any of many may be meant"
    found = asked(said("resolved"), held=(), followers=(follower,))
    assert found["holder"].sentence == "p follows the room, so it is in dp1"
    found = asked(said("connected", "timed_out"), held=(), followers=(replace(follower, because="p is not serving"),))
    assert causes(found) == [("serving", "unanswered")]
