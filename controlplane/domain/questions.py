"""Questions that an operator asks in order, each with its answer: yes, no, or not observed; and what the answers come to.

What nobody saw is not observed, and speaks neither for nor against. The first "no" that does not follow from another one is
the conclusion. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace


class Verdict(enum.StrEnum):
    YES = "yes"
    NO = "no"
    NOT_OBSERVED = "not_observed"


@dataclass(frozen=True, slots=True)
class Answer:
    """One question and its answer. `code`: what was found, in one word; `at`: when that was seen (epoch seconds, None when
    nobody kept it); `old`: nobody renews it now; `next`: what a person can do, empty when nothing. `follows`: the key of an
    earlier "no" that explains this one."""

    key: str
    question: str
    verdict: Verdict
    code: str
    sentence: str
    at: float | None = None
    old: bool = False
    next: str = ""
    follows: str = ""

    @property
    def is_cause(self) -> bool:
        return self.verdict is Verdict.NO and not self.follows


@dataclass(frozen=True, slots=True)
class Outcome:
    """`code`: that of the answer which decides, or `well` (nothing speaks against it). `key`: its question, empty for
    `well`. `also`: keys of further answers that say no and do not follow from it."""

    code: str
    key: str
    head: str
    sentence: str
    next: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inquiry:
    answers: tuple[Answer, ...]
    outcome: Outcome

    def __getitem__(self, key: str) -> Answer:
        """Raises KeyError for a question that is not asked about such a thing."""
        for answer in self.answers:
            if answer.key == key:
                return answer
        raise KeyError(key)

    @property
    def causes(self) -> tuple[Answer, ...]:
        return tuple(answer for answer in self.answers if answer.is_cause)


def told_apart(answers: Iterable[Answer], explains: Mapping[str, Sequence[str]]) -> tuple[Answer, ...]:
    """The same answers; a "no" that an earlier one explains says so. `explains`: by what may follow (`key` or `key.code`),
    the earlier ones (alike) that explain it."""
    done: list[Answer] = []
    for answer in answers:
        if answer.verdict is Verdict.NO:
            names = {answer.key, f"{answer.key}.{answer.code}"}
            wanted = [before for name in names for before in explains.get(name, ())]
            cause = next((one for one in done if one.is_cause and _named(one, wanted)), None)
            answer = replace(answer, follows=cause.key) if cause is not None else answer
        done.append(answer)
    return tuple(done)


def _named(answer: Answer, wanted: Sequence[str]) -> bool:
    return answer.key in wanted or f"{answer.key}.{answer.code}" in wanted


def conclude(answers: Sequence[Answer]) -> Inquiry:
    """
    >>> seen = Answer("a", "Is it?", Verdict.YES, "is", "It is"), Answer("b", "Is he?", Verdict.NO, "away", "He is away")
    >>> conclude(seen).outcome.code, conclude(seen[:1]).outcome.head
    ('away', 'Nothing that was seen speaks against it.')
    """
    causes = [answer for answer in answers if answer.is_cause]
    if causes:
        first = causes[0]
        also = tuple(answer.key for answer in causes[1:])
        return Inquiry(
            tuple(answers), Outcome(first.code, first.key, f"{first.question} No.", first.sentence, first.next, also)
        )
    unseen = [answer for answer in answers if answer.verdict is Verdict.NOT_OBSERVED]
    seen = len(answers) - len(unseen)
    if unseen:
        known = f"{seen} of {len(answers)} questions are answered with yes"
        said = f"{known}; what the others ask was not observed, and is not claimed."
    else:
        said = f"All {seen} questions are answered with yes."
    return Inquiry(tuple(answers), Outcome("well", "", "Nothing that was seen speaks against it.", said))
