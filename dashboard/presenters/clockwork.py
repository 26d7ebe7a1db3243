"""Periodic tasks as a page says them: one line a task, and in short how all of it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.clockwork import Standing
from controlplane.queries.badges import ProcessRow
from controlplane.queries.clockwork import RunnerRow, TaskRow, heard_at, is_fine
from controlplane.queries.wording import counted, span

from .ages import age_text

WORST = (Standing.STOPPED, Standing.FAILING, Standing.LATE, Standing.NEVER)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """`state`: a key of STATES; `ended`: how its last round ended, blank before that."""

    row: TaskRow
    state: str
    every: str
    ended: str
    took: str
    late: bool


@dataclass(frozen=True, slots=True)
class ProcessLine:
    """One of our processes: `name` is who, where that is known."""

    kind: str
    name: str
    state: str
    seen_at: float | None
    does: str


def task_lines(rows: Sequence[TaskRow], *, now: float) -> list[TaskLine]:
    return [
        TaskLine(
            row,
            str(row.standing(now)),
            span(row.every),
            row.outcome,
            took_text(row.took),
            row.overdue(now) > row.every,
        )
        for row in rows
    ]


def took_text(seconds: float | None) -> str:
    """
    >>> took_text(0.0123), took_text(2.345), took_text(None)
    ('12 ms', '2.3s', '')
    """
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else age_text(seconds)


def in_short(rows: Sequence[TaskRow], *, now: float) -> tuple[str, str]:
    """The verdict in short, and why."""
    if heard_at(rows) is None:
        return (
            "Has never run.",
            "Start the Celery worker with its beat: manage.py up does, and so does the command below.",
        )
    counts = {word: sum(row.standing(now) is word for row in rows) for word in WORST}
    wrong = [f"{counted(counts[word], 'task')} {SAYS[word]}" for word in WORST if counts[word]]
    if not is_fine(rows, now=now):
        return "Does not run.", f"{', '.join(wrong)}. Start the Celery worker with its beat, or read its log."
    if wrong:
        return "Runs, but not all of it.", f"{', '.join(wrong)}."
    return "Runs.", f"All of {counted(len(rows), 'task')} are on time."


SAYS = {
    Standing.STOPPED: "stopped",
    Standing.FAILING: "failing",
    Standing.LATE: "late",
    Standing.NEVER: "never ran",
}


def process_lines(own: Sequence[ProcessRow], runners: Sequence[RunnerRow], *, now: float) -> list[ProcessLine]:
    """Our processes, the clockwork as the workers and beats that it is made of."""
    found = []
    for process in own:
        if process.name != "clockwork" or not runners:
            state = "live" if process.fine else "away" if process.seen_at else "unknown"
            found.append(ProcessLine(process.name, "", state, process.seen_at, DOES[process.name]))
            continue
        for runner in runners:
            state = "live" if runner.there(now) else "away"
            found.append(ProcessLine(runner.kind, runner.name, state, runner.seen_at, _does(runner)))
    return found


def _does(runner: RunnerRow) -> str:
    """
    >>> _does(RunnerRow("beat", "a pid 1", 0.0, ("check drains",)))
    'sent the newest round of 1 task'
    """
    what = "sent" if runner.kind == "beat" else "ran"
    return f"{what} the newest round of {counted(len(runner.tasks), 'task')}"


DOES = {
    "bootstrap": "answers workers, and writes who is registered",
    "clockwork": "runs what changes because time passes",
    "web": "answered this page",
}
