"""When a round of a periodic task may begin, and how a task stands: on time, late, stopped, failing.

Two beats may send the same task, and two workers take it. What both see is one row, and whoever changes it first has the
round: so a round is one, however often it was sent.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

SPACING = 0.75
"""A round that is sent sooner than this share of its period after the last one is the same round, sent twice."""

FEW_FAILURES = 3
"""So many in a row are no accident, for a task that runs often."""

OFTEN_SECONDS = 10.0
"""What runs at least this often is what the fleet waits for; the rest keeps tables small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The newest round of a task: `number` was begun, `done` is the newest that ended."""

    number: int = 0
    done: int = 0
    began_at: float | None = None
    within: float = 0.0

    @property
    def running(self) -> bool:
        return self.number > self.done

    def overran(self, now: float) -> bool:
        # It cannot have begun later than now: by more than it may take, that is a clock that has been set back since.
        return self.running and self.began_at is not None and abs(now - self.began_at) > self.within


@dataclass(frozen=True, slots=True)
class Turn:
    """May the next round begin? If not, why; if so, whether the one before is `lost`: begun, and never to end."""

    begins: bool
    why: str = ""
    lost: str = ""


def turn(last: Round, *, now: float, every: float, overlaps: bool, gone: bool) -> Turn:
    """`gone`: the process that ran the last round is known not to run any more. `overlaps`: rounds of this task may run
    beside each other."""
    lost = ""
    if last.running and gone:
        lost = "the process that ran it is gone"
    elif last.overran(now) and not overlaps:
        lost = f"it was not over within {last.within:g} s"
    # A time ahead of us by more than a period was written by a clock that has been set back since.
    since = now - last.began_at if last.began_at is not None else None
    if since is not None and -every < since < SPACING * every:
        return Turn(False, "this round has begun already")
    if last.running and not overlaps and not lost:
        return Turn(False, "the round before is still under way")
    return Turn(True, lost=lost)


LEAP_SECONDS = 7 * 86_400.0
HELD_SECONDS = 3600.0
LEAPT = "Leapt"
"""How the error of a round begins that was not run because the clock had leapt."""


def leap(*, ahead: float, error: str, failing_since: float | None, now: float) -> float:
    """By how many seconds the clock seems to have gone ahead, where nothing may be deleted for being old; 0.0 where it may.

    `ahead`: how much later it is than when this was done last. Either nobody was there for so long, or the clock is wrong, as
    that of a host may be that has just started; what is deleted by it is gone. `error` and `failing_since` are of the rounds
    before: who waits does so for HELD_SECONDS, whoever of several workers looks, or until the clock is set back.
    """
    if ahead > LEAP_SECONDS:
        return ahead
    held = error.startswith(LEAPT) and failing_since is not None and 0 <= now - failing_since < HELD_SECONDS
    return LEAP_SECONDS if held else 0.0


class Standing(enum.StrEnum):
    """One word for a task."""

    NEVER = "never"
    RUNS = "runs"
    LATE = "late"
    FAILING = "failing"
    STOPPED = "stopped"

    @property
    def fine(self) -> bool:
        return self is Standing.RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it is scheduled, and what is known of its rounds. `title` says what it does."""

    key: str
    title: str
    every: float
    last: Round | None = None
    failures: int = 0
    failing_since: float | None = None
    error: str = ""

    @property
    def often(self) -> bool:
        return self.every <= OFTEN_SECONDS

    def due_at(self) -> float | None:
        """When the next round should begin; None before the first."""
        return None if self.last is None or self.last.began_at is None else self.last.began_at + self.every

    def overdue(self, now: float) -> float:
        """By how many seconds; 0.0 when it is not, or while a round is under way that may take its time."""
        due = self.due_at()
        if due is None or self.last is None or (self.last.running and not self.last.overran(now)):
            return 0.0
        return max(0.0, now - due)

    def standing(self, now: float) -> Standing:
        if self.last is None or self.last.began_at is None:
            return Standing.NEVER
        overdue = self.overdue(now)
        # A restart of beat may put a round off by three quarters of its period: that alone is not late.
        if overdue > max(9.0, 2 * self.every):
            return Standing.STOPPED
        if self.failures >= (FEW_FAILURES if self.often else 1):
            return Standing.FAILING
        return Standing.LATE if overdue > max(4.0, self.every) else Standing.RUNS


def at_rest(tasks: Iterable[Task], *, now: float) -> bool:
    """Whether nothing runs at all: of the tasks that should run all the time, none does."""
    often = [task for task in tasks if task.often]
    return bool(often) and all(task.standing(now) in (Standing.STOPPED, Standing.NEVER) for task in often)
