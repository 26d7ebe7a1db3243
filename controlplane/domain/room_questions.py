"""The same way of asking for a room: who holds it, does that prefill answer, and each rung in order. Pure.

The ladder says what is proven, and by whom; here each rung is one answer, beside what explains that it failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .claims import Claim, Follower, Held, Knowledge, Ladder, Rung, Said, Standing
from .evidence import last_words
from .questions import Answer, Verdict, told_apart
from .room_end import FAILED_NEXT, LEARN_AGAIN, cause
from .room_troubles import about_holders, about_ranks

YES, NO, UNSEEN = Verdict.YES, Verdict.NO, Verdict.NOT_OBSERVED
QUESTIONS: Mapping[str, str] = {
    "registered": "Was it bound to a DP group?",
    "resolved": "Was a decode told where it is?",
    "connected": "Did decode and prefill reach each other?",
    "verified": "Is what arrived of this room?",
    "consumed": "Did the decode take it?",
}
KEYS = ("holder", "serving", *QUESTIONS)
EXPLAINS: Mapping[str, Sequence[str]] = {
    name: ("holder", "serving", *tuple(QUESTIONS)[:place]) for place, name in enumerate(QUESTIONS)
} | {"serving": ("holder",)}
AGAIN = "Send the request again, with a new room."


def ask(
    room: int, ladder: Ladder, held: Sequence[Held], followers: Sequence[Follower], said: Sequence[Said]
) -> tuple[Answer, ...]:
    """`said`: what workers told of this use of the room."""
    told_of = {one.instance for one in said}
    meant = [one for one in followers if one.instance in told_of]
    answers = [_holder(room, held, meant, said), _serving(room, held, meant)]
    answers += [_rung(rung, ladder, said) for rung in ladder.rungs]
    return told_apart(answers, EXPLAINS)


def _holder(room: int, held: Sequence[Held], followers: Sequence[Follower], said: Sequence[Said]) -> Answer:
    def say(verdict: Verdict, code: str, sentence: str, next_: str = "", at: float | None = None) -> Answer:
        return Answer("holder", "Is it clear who holds it?", verdict, code, sentence, at, next=next_)

    living = [one for one in held if one.live]
    for code, (what, advice) in about_holders(room, living):
        return say(NO, code, what, advice)
    stray = next((one for one in said if living and one.instance not in {home.instance for home in living}), None)
    if stray is not None:
        what = f"{living[0].where} holds it, but {stray.who} reports of it with {stray.instance}"
        return say(
            NO, "elsewhere", what, "One request has one prefill: look which one its router told the decode.", stray.at
        )
    if living:
        return say(YES, "bound", f"{living[0].where} holds it", at=living[0].bound_at)
    if followers:
        one = followers[0]
        return say(YES, "follows", f"{one.instance} follows the room, so it is in dp{room % one.groups}")
    if held:
        return say(UNSEEN, "over", f"{held[0].where} held it; that is over")
    return say(UNSEEN, "nobody", "Nobody bound it, as far as is known here")


def _serving(room: int, held: Sequence[Held], followers: Sequence[Follower]) -> Answer:
    def say(verdict: Verdict, code: str, sentence: str, next_: str = "") -> Answer:
        return Answer("serving", "Does that prefill answer?", verdict, code, sentence, next=next_)

    living = [one for one in held if one.live]
    for code, (what, advice) in about_ranks(room, living):
        return say(NO, code, what, advice)
    for one in followers:
        why = one.because or next(iter(one.doubts), "")
        if why:
            code = "unanswered" if one.because else "doubted"
            return say(NO, code, f"{one.instance} follows the room, and {why}", f"Look at {one.instance}.")
    there = [one.instance for one in living] + [one.instance for one in followers]
    if there:
        return say(YES, "serves", f"{there[0]} answers look-ups, and no rank of that DP group is known to be gone")
    return say(UNSEEN, "nobody", "It is not known which prefill it is")


def _rung(rung: Rung, ladder: Ladder, said: Sequence[Said]) -> Answer:
    def say(verdict: Verdict, code: str, sentence: str, next_: str = "") -> Answer:
        times = [claim.at for claim in _seen(rung) if claim.at is not None]
        return Answer(rung.name, QUESTIONS[rung.name], verdict, code, sentence, max(times, default=None), next=next_)

    known = [f"{claim.who}: {claim.sentence}" for claim in _seen(rung)]
    match rung.standing:
        case Standing.PASSED:
            return say(YES, "passed", known[0] if known else "It was seen")
        case Standing.FAILED:
            # The same word that the conclusion goes by.
            failure = cause([one for one in last_words(said) if one.rung == rung.name and not one.passed])
            quoted = (
                f"{one.who}: {one.sentence}" for one in _seen(rung) if (one.who, one.at) == (failure.who, failure.at)
            )
            what = next(quoted, known[0] if known else "It failed")
            if failure.stale:
                return say(NO, "stale", f"{what}; {failure.stale}", LEARN_AGAIN)
            return say(NO, failure.result, what, FAILED_NEXT[rung.name])
        case Standing.EXPIRED:
            return say(NO, "expired", known[0] if known else "Its binding has expired", AGAIN)
    last = ladder.conclusion
    stops = last.kind == "stops" and rung is next((r for r in ladder.rungs if r.standing is not Standing.PASSED), None)
    return say(UNSEEN, "unseen", f"Nobody saw it; a report would show {rung.would_show}", last.next if stops else "")


def _seen(rung: Rung) -> Iterator[Claim]:
    return (claim for claim in rung.claims if claim.knowledge in (Knowledge.OBSERVED, Knowledge.REPORTED))
