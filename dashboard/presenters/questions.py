"""Questions and their answers as a page shows them: what is a cause stands out, what follows from it says from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.questions import Answer, Inquiry, Verdict

from .states import BAD, NONE, OK, WARN


@dataclass(frozen=True, slots=True)
class QuestionView:
    """`word`: yes or no, empty for what nobody saw. `follows`: the question whose answer explains this one."""

    number: int
    key: str
    question: str
    tone: str
    icon: str
    word: str
    sentence: str
    at: float | None
    old: bool
    next: str
    follows: str
    cut: bool


def question_views(found: Inquiry) -> list[QuestionView]:
    asked = {answer.key: answer.question for answer in found.answers}
    following: Sequence[Answer | None] = [*found.answers[1:], None]
    return [
        _view(number, answer, asked.get(answer.follows, ""), after)
        for number, (answer, after) in enumerate(zip(found.answers, following, strict=True), 1)
    ]


def _view(number: int, answer: Answer, follows: str, after: Answer | None) -> QuestionView:
    tone, icon, word = LOOKS[answer.verdict]
    if follows:
        tone, icon = WARN, "warn"
    # The line is solid between what was seen.
    unseen = Verdict.NOT_OBSERVED
    cut = answer.verdict is unseen or after is None or after.verdict is unseen
    sentence = f"{answer.sentence.rstrip('.')}."
    return QuestionView(
        number,
        answer.key,
        answer.question,
        tone,
        icon,
        word,
        sentence,
        answer.at,
        answer.old,
        "" if follows else answer.next,
        follows,
        cut,
    )


LOOKS = {
    Verdict.YES: (OK, "ok", "yes"),
    Verdict.NO: (BAD, "x", "no"),
    Verdict.NOT_OBSERVED: (NONE, "", ""),
}


def tone_of(found: Inquiry) -> str:
    """Of the conclusion. What operators wanted is no fault."""
    if not found.outcome.key:
        return OK if all(answer.verdict is Verdict.YES for answer in found.answers) else NONE
    return WARN if found.outcome.key == "wanted" else BAD


def beside(found: Inquiry) -> list[tuple[str, str]]:
    """Key and question of whatever says no besides the conclusion, and is not explained."""
    return [(key, found[key].question) for key in found.outcome.also]


def told(found: Inquiry) -> str:
    """
    >>> from controlplane.domain.questions import conclude
    >>> told(conclude([Answer("a", "Is it?", Verdict.YES, "is", "It is")]))
    '1 question: 1 yes'
    """
    count = len(found.answers)
    words = {Verdict.YES: "yes", Verdict.NO: "no", Verdict.NOT_OBSERVED: "not observed"}
    numbers = [(sum(answer.verdict is verdict for answer in found.answers), word) for verdict, word in words.items()]
    told_ = ", ".join(f"{number} {word}" for number, word in numbers if number)
    return f"{count} question{'' if count == 1 else 's'}: {told_}"
