"""The clockwork as rows: each periodic task with what its rounds came to, what failed lately, and who runs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from controlplane.databases import TRAFFIC
from controlplane.domain.attention import Concern
from controlplane.domain.attention_tasks import of_tasks
from controlplane.domain.clockwork import Round, Standing, Task, at_rest
from controlplane.models import TaskFailure, TaskRound

from .wording import span

MOST_FAILURES = 50
FAILURES_TOLD = 400
RUNNING_SECONDS = 60.0
"""Who was at work within so long is there."""

NODE = re.compile(r"^\w*?(\d+)@(.+)$")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One scheduled task. `title`: what it does. Times are epoch seconds, None for never."""

    task: Task
    number: int = 0
    within: float = 0.0
    began_at: float | None = None
    ended_at: float | None = None
    ok_at: float | None = None
    outcome: str = ""
    took: float | None = None
    ran_by: str = ""
    sent_by: str = ""

    @property
    def key(self) -> str:
        return self.task.key

    @property
    def title(self) -> str:
        return self.task.title

    @property
    def every(self) -> float:
        return self.task.every

    @property
    def running(self) -> bool:
        return self.task.last is not None and self.task.last.running

    @property
    def error(self) -> str:
        return self.task.error

    @property
    def failures(self) -> int:
        return self.task.failures

    @property
    def failing_since(self) -> float | None:
        return self.task.failing_since

    @property
    def due_at(self) -> float | None:
        return self.task.due_at()

    def standing(self, now: float) -> Standing:
        return self.task.standing(now)

    def overdue(self, now: float) -> float:
        return self.task.overdue(now)

    def sentence(self, now: float) -> str:
        """How it stands, in words without ages."""
        often = f"It is due every {span(self.every)}"
        match self.standing(now):
            case Standing.NEVER:
                return f"{often}, and has never run."
            case Standing.STOPPED:
                return f"{often}, and has stopped."
            case Standing.LATE:
                return f"{often}, and is late."
            case Standing.FAILING:
                return f"Its last {self.failures:,} rounds failed: {self.error.rstrip('.')}."
            case _:
                return f"{often}, and runs."


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Rounds that failed alike, one after another: from `since` to `at`."""

    task: str
    outcome: str
    error: str
    ran_by: str
    number: int
    since: float
    at: float
    count: int


@dataclass(frozen=True, slots=True)
class RunnerRow:
    """A process of the clockwork: a worker, or a beat. `tasks`: whose newest round it ran, or sent."""

    kind: str
    name: str
    seen_at: float
    tasks: tuple[str, ...]

    def there(self, now: float) -> bool:
        return now - self.seen_at <= RUNNING_SECONDS


def entries() -> list[tuple[str, str, float]]:
    """What is scheduled: the name of each task as Celery knows it, what it does, and its period in seconds."""
    found: dict[str, dict[str, Any]] = settings.CELERY_BEAT_SCHEDULE
    return [(entry["task"], title, float(entry["schedule"])) for title, entry in found.items()]


def schedule() -> dict[str, tuple[str, float]]:
    """The same by the short name of the task."""
    return {name.rpartition(".")[2]: (title, every) for name, title, every in entries()}


def listing() -> tuple[TaskRow, ...]:
    """Every scheduled task, those that run most often first. One query."""
    known = {row.task: row for row in TaskRound.objects.using(TRAFFIC).all()}
    rows = [_row(key, title, every, known.get(key)) for key, (title, every) in schedule().items()]
    return tuple(sorted(rows, key=lambda row: (row.every, row.title)))


def failures(*, task: str = "", limit: int = MOST_FAILURES) -> tuple[FailureRow, ...]:
    """What failed lately, the newest first."""
    found = TaskFailure.objects.using(TRAFFIC).order_by("-at", "-id")
    if task:
        found = found.filter(task=task)
    return tuple(
        FailureRow(row.task, row.outcome, row.error, row.ran_by, row.number, row.since, row.at, row.count)
        for row in found[:limit]
    )


def runners(rows: Iterable[TaskRow]) -> tuple[RunnerRow, ...]:
    """The workers that ran the newest rounds, and the beats that sent them."""
    found: dict[tuple[str, str], list[TaskRow]] = {}
    for row in rows:
        for kind, name in (("worker", row.ran_by), ("beat", sender(row.sent_by))):
            if name and row.began_at is not None:
                found.setdefault((kind, name), []).append(row)
    return tuple(
        RunnerRow(kind, name, max(row.began_at or 0.0 for row in own), tuple(row.title for row in own))
        for (kind, name), own in sorted(found.items(), key=lambda one: (one[0][0] != "worker", one[0][1]))
    )


def sender(node: str) -> str:
    """A sender as Celery names it, in the words that we have for processes.

    >>> sender("gen4711@host-a"), sender("somebody"), sender("")
    ('host-a pid 4711', 'somebody', '')
    """
    found = NODE.match(node)
    return f"{found[2]} pid {found[1]}" if found else node


def heard_at(rows: Iterable[TaskRow]) -> float | None:
    """When anything of the clockwork was last seen at work."""
    return max((at for row in rows for at in (row.began_at, row.ended_at) if at is not None), default=None)


def is_fine(rows: Iterable[TaskRow], *, now: float) -> bool:
    """Whether what the fleet waits for is done: a task that fails has its own concern."""
    often = [row.task for row in rows if row.task.often]
    return not at_rest(often, now=now) and not any(task.standing(now) is Standing.STOPPED for task in often)


def concerns(rows: Sequence[TaskRow], *, now: float) -> Iterator[Concern]:
    """What of it needs a person."""
    newest = max(rows, key=lambda row: row.began_at or 0.0, default=None)
    ran_by = newest.ran_by if newest is not None else ""
    yield from of_tasks([row.task for row in rows], heard_at=heard_at(rows), ran_by=ran_by, now=now)


def _row(key: str, title: str, every: float, row: TaskRound | None) -> TaskRow:
    if row is None:
        return TaskRow(Task(key=key, title=title, every=every))
    last = Round(number=row.number, done=row.done, began_at=row.began_at, within=row.within_seconds)
    task = Task(
        key=key,
        title=title,
        every=every,
        last=last,
        failures=row.failures,
        failing_since=row.failing_since,
        error=row.error,
    )
    return TaskRow(
        task,
        number=row.number,
        within=row.within_seconds,
        began_at=row.began_at,
        ended_at=row.ended_at,
        ok_at=row.ok_at,
        outcome=row.outcome,
        took=row.took_seconds,
        ran_by=row.ran_by,
        sent_by=row.sent_by,
    )


def document(*, now: float) -> dict[str, Any]:
    """All of it as plain values, times in epoch seconds: what the API and the command say."""
    rows = listing()
    return {
        "fine": is_fine(rows, now=now),
        "tasks": [_task_document(row, now) for row in rows],
        "runners": [
            {"kind": one.kind, "name": one.name, "there": one.there(now), "seen_at": one.seen_at, "tasks": one.tasks}
            for one in runners(rows)
        ],
        "failures": failures(limit=FAILURES_TOLD),
    }


def _task_document(row: TaskRow, now: float) -> dict[str, Any]:
    return {
        "task": row.key,
        "does": row.title,
        "standing": str(row.standing(now)),
        "sentence": row.sentence(now),
        "every_seconds": row.every,
        "within_seconds": row.within,
        "round": row.number,
        "running": row.running,
        "began_at": row.began_at,
        "ended_at": row.ended_at,
        "outcome": row.outcome,
        "took_seconds": row.took,
        "error": row.error,
        "ok_at": row.ok_at,
        "failures": row.failures,
        "failing_since": row.failing_since,
        "due_at": row.due_at,
        "overdue_seconds": row.overdue(now),
        "ran_by": row.ran_by,
        "sent_by": sender(row.sent_by),
    }
