"""Questions and their answers as commands print them."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain.questions import Answer
from controlplane.queries.wording import ago

HEADINGS = ("QUESTION", "ANSWER", "SEEN", "WHY")


def question_lines(answers: Sequence[Answer], now: float) -> list[list[str]]:
    """A row of the table for each, in order."""
    return [[answer.question, _word(answer), _seen(answer, now), answer.sentence] for answer in answers]


def _word(answer: Answer) -> str:
    return f"{answer.verdict.value.replace('_', ' ')}{' (follows)' if answer.follows else ''}"


def _seen(answer: Answer, now: float) -> str:
    if answer.at is None:
        return "old" if answer.old else "-"
    return f"{ago(answer.at, now)}{' (old)' if answer.old else ''}"
