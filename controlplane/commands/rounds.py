"""Claim and end rounds of periodic tasks: compare-and-set on one row a task, so that two beats or workers make one round."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import connections
from django.db.models import F, Value
from django.db.models.functions import Coalesce

from controlplane.databases import TRAFFIC
from controlplane.domain.clockwork import Round, leap, turn
from controlplane.models import TaskFailure, TaskRound

FAILURES_KEPT = 20
"""Of one task; those that are alike and follow each other are one row."""

LONGEST_ERROR = 1000
CLOCK = "SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8"


@dataclass(frozen=True, slots=True)
class Runner:
    """A process that runs rounds: as people know it, and so that others on its host can see whether it is gone."""

    name: str
    holder: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How a task is run. `every` and `within` are seconds; `overlaps`: a round may begin while another is under way."""

    task: str
    every: float
    within: float
    overlaps: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A round that is ours alone. `leapt`: by so many seconds the clock seems to have gone ahead (domain.clockwork.leap)."""

    task: str
    number: int
    by: str
    leapt: float = 0.0


Gone = Callable[[str], bool]
"""Whether a `holder` is known not to run any more; False when nobody can tell."""


def clock() -> float:
    """What rounds are dated by: the database's own time where several hosts share one."""
    connection = connections[TRAFFIC]
    if connection.vendor != "postgresql":
        return time.time()
    with connection.cursor() as cursor:
        cursor.execute(CLOCK)
        return float(cursor.fetchone()[0])


def begin(plan: Plan, runner: Runner, *, sent_by: str = "", is_gone: Gone | None = None) -> Begun | None:
    """The next round of a task, if it is due and nobody else has it; None otherwise."""
    rows = TaskRound.objects.using(TRAFFIC).filter(task=plan.task)
    row = rows.first()
    if row is None:
        fresh = TaskRound(task=plan.task, every_seconds=plan.every, within_seconds=plan.within)
        TaskRound.objects.using(TRAFFIC).bulk_create([fresh], ignore_conflicts=True)
        row = rows.get()
    now = clock()
    last = Round(number=row.number, done=row.done, began_at=row.began_at, within=row.within_seconds)
    gone = last.running and is_gone is not None and is_gone(row.holder)
    next_turn = turn(last, now=now, every=plan.every, overlaps=plan.overlaps, gone=gone)
    if not next_turn.begins:
        return None
    # To call it lost, it must not have ended meanwhile.
    same = rows.filter(number=row.number, done=row.done) if next_turn.lost else rows.filter(number=row.number)
    claimed = same.update(
        number=row.number + 1,
        began_at=now,
        every_seconds=plan.every,
        within_seconds=plan.within,
        ran_by=runner.name,
        holder=runner.holder,
        sent_by=sent_by,
    )
    if not claimed:
        return None
    if next_turn.lost:
        lost = Begun(plan.task, row.number, row.ran_by)
        end(lost, outcome=TaskRound.Outcome.LOST, took=None, error=next_turn.lost)
    # Deleted is by this process's clock, and rounds are dated by the database's: neither may be far ahead.
    ahead = max(now - (row.began_at if row.began_at is not None else now), time.time() - now)
    leapt = leap(ahead=ahead, error=row.error, failing_since=row.failing_since, now=now)
    return Begun(plan.task, row.number + 1, runner.name, leapt)


def end(begun: Begun, *, outcome: str, took: float | None, error: str = "") -> None:
    """A round is over. One that ended before a newer one did says nothing new of how the task stands."""
    now = clock()
    # Others' words may hold what no table takes; a round that cannot end would be the last.
    text = error.replace("\x00", "\\0").encode("utf-8", "replace").decode()[:LONGEST_ERROR]
    newest = TaskRound.objects.using(TRAFFIC).filter(task=begun.task, done__lt=begun.number)
    said = {"done": begun.number, "ended_at": now, "outcome": outcome, "took_seconds": took, "error": text}
    if outcome == TaskRound.Outcome.OK:
        newest.update(**said, ok_at=now, failures=0, failing_since=None)
        return
    failing = newest.update(**said, failures=F("failures") + 1, failing_since=Coalesce(F("failing_since"), Value(now)))
    if failing:
        _remember(begun, outcome, text, now)


def _remember(begun: Begun, outcome: str, error: str, now: float) -> None:
    """Beside the row: the newest failures, those that are alike as one."""
    own = TaskFailure.objects.using(TRAFFIC).filter(task=begun.task)
    since = TaskRound.objects.using(TRAFFIC).filter(task=begun.task).values_list("failing_since", flat=True).first()
    before = own.order_by("-id").first()
    alike = before is not None and (before.outcome, before.error) == (outcome, error)
    if before is not None and alike and since is not None and before.at >= since:
        own.filter(pk=before.pk).update(count=F("count") + 1, at=now, number=begun.number, ran_by=begun.by)
        return
    TaskFailure.objects.using(TRAFFIC).create(
        task=begun.task, outcome=outcome, error=error, ran_by=begun.by, number=begun.number, since=now, at=now
    )
    kept = own.order_by("-id").values_list("id", flat=True)[FAILURES_KEPT - 1 : FAILURES_KEPT]
    if oldest := list(kept):
        own.filter(pk__lt=oldest[0]).delete()
