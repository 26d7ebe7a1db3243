"""One engine as this process knows it, which may be younger than what is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from controlplane.domain.engine_health import Answer, Heard, Memory
from controlplane.queries.engine_health import Asked

SPARED_SECONDS, SPARED_MOST_SECONDS = 20.0, 60.0
"""For so long an engine that did not answer its /health is not sent another one while its scheduler stands still: each is a
request that is computed once it runs again, and many of them at once have ended engines. SGLang gives one up after 20 s."""

GAVE_UP_SECONDS = 10.0


@dataclass(slots=True)
class Known:
    """One engine as this process knows it, which may be younger than what is stored."""

    asked: Asked
    memory: Memory
    stored: Memory
    version: int
    stored_at: float
    due: float = 0.0
    asked_since: float = 0.0
    hangs: bool = False
    """Whoever asks it waits until it is given up, as far as the last probe tells."""
    unanswered: int = 0
    """So many times in a row it did not answer its /health in time; it was asked at `asked_health_at` last (monotonic)."""
    asked_health_at: float = 0.0

    @property
    def spare(self) -> bool:
        """What it has not answered may wait in it still. Not for ever: its load may stand still for a reason of its own."""
        patience = min(SPARED_MOST_SECONDS, SPARED_SECONDS * 2.0 ** min(self.unanswered - 1, 10))
        return bool(self.unanswered) and time.monotonic() - self.asked_health_at < patience

    def anew(self, asked: Asked, memory: Memory, stored: Memory, version: int, stored_at: float) -> Known:
        """What others have stored meanwhile; how we asked it is for us alone to know, and ends with its address."""
        known = replace(self, asked=asked, memory=memory, stored=stored, version=version, stored_at=stored_at, due=0.0)
        if memory.at != self.memory.at:
            known.unanswered, known.hangs = 0, False
        return known

    def count(self, heard: Heard) -> None:
        """One probe more. An engine that says after long that it is not well has given up, and its scheduler has not."""
        gave_up = heard.answer is Answer.UNWELL and (heard.took or 0.0) >= GAVE_UP_SECONDS
        if gave_up or (heard.answer is Answer.TIMEOUT and not heard.spared):
            self.unanswered, self.asked_health_at = self.unanswered + 1, time.monotonic()
        elif heard.answer not in (Answer.TIMEOUT, Answer.UNREACHED, Answer.UNASKED):
            self.unanswered = 0


def is_news(known: Known) -> bool:
    """Whether it says something else than what is stored, and not only when."""
    return _says(known.memory) != _says(known.stored) or not known.version


def _says(memory: Memory) -> tuple[object, ...]:
    counts = replace(memory, since=0.0)
    return (
        *counts.verdict,
        counts.fails,
        counts.passes,
        counts.served,
        counts.identity,
        dict(counts.said),
        counts.held,
        counts.holder,
        counts.withheld_since is None,
        counts.error if counts.fails else "",
    )
