"""`manage.py clockwork`: what is done because time passes, when it ran last and how that ended."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.management.operating import NOTHING, OK, OperatorCommand, moment
from controlplane.queries import clockwork
from controlplane.queries.clockwork import FailureRow, TaskRow
from controlplane.queries.wording import ago, counted, span

SHOWN_FAILURES = 10
TIMES = ("began_at", "ended_at", "ok_at", "failing_since", "due_at", "seen_at", "since", "at")


class Command(OperatorCommand):
    help = "Show every periodic task: when it ran last, how that ended, and who runs it. Exits 1 when one does not run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--failures", metavar="TASK", help="list what failed of this task (its short name)")
        self.add_json(parser)

    def operate(self, options: dict[str, Any]) -> int:
        now = time.time()
        if options["failures"] is not None:
            return self._failures(options["failures"], now, as_json=options["json"])
        said = clockwork.document(now=now)
        well = all(task["standing"] in ("runs", "late") for task in said["tasks"])
        if options["json"]:
            failed = [_readable(_failure(row)) for row in said["failures"]]
            lists = {name: [_readable(one) for one in said[name]] for name in ("tasks", "runners")}
            self.print_json({"fine": said["fine"], **lists, "failures": failed})
            return OK if well else NOTHING
        rows = clockwork.listing()
        self.table(
            ["TASK", "EVERY", "STATE", "BEGAN", "ENDED", "TOOK", "NEXT", "RUN BY"], [_line(row, now) for row in rows]
        )
        self._notes(rows, said["failures"], now)
        return OK if well else NOTHING

    def _notes(self, rows: tuple[TaskRow, ...], failed: tuple[FailureRow, ...], now: float) -> None:
        if clockwork.heard_at(rows) is None:
            self.say()
            self.say("Nothing has ever run: start the Celery worker with its beat (manage.py up does).")
        for runner in clockwork.runners(rows):
            if not runner.there(now):
                self.say(f"The {runner.kind} {runner.name} was last seen {ago(runner.seen_at, now)}.")
        if failed:
            self.say()
            self.say("Failed lately:")
            self._table_of(failed[:SHOWN_FAILURES], now)

    def _failures(self, task: str, now: float, *, as_json: bool) -> int:
        if task not in clockwork.schedule():
            known = ", ".join(sorted(clockwork.schedule()))
            self.complain(f"no task is called {task}; there are {known}")
            return NOTHING
        found = clockwork.failures(task=task, limit=clockwork.FAILURES_TOLD)
        if as_json:
            self.print_json({"task": task, "failures": [_readable(_failure(row)) for row in found]})
        elif found:
            self._table_of(found, now)
        else:
            self.say(f"Nothing of {task} has failed lately.")
        return OK if found else NOTHING

    def _table_of(self, found: tuple[FailureRow, ...], now: float) -> None:
        self.table(
            ["TASK", "OUTCOME", "TIMES", "LAST", "RUN BY", "SAID"],
            [[row.task, row.outcome, str(row.count), ago(row.at, now), row.ran_by, row.error or "-"] for row in found],
        )


def _line(row: TaskRow, now: float) -> list[str]:
    due = row.due_at
    upcoming = "under way" if row.running else "-" if due is None else f"in {span(due - now)}" if due > now else "due"
    return [
        row.title,
        span(row.every),
        str(row.standing(now)) if not row.failures else f"{row.standing(now)} ({counted(row.failures, 'failure')})",
        ago(row.began_at, now) if row.began_at is not None else "never",
        f"{row.outcome} {ago(row.ended_at, now)}" if row.ended_at is not None else "-",
        f"{row.took:.3f} s" if row.took is not None else "-",
        upcoming,
        row.ran_by or "-",
    ]


def _failure(row: FailureRow) -> dict[str, Any]:
    return {
        "task": row.task,
        "outcome": row.outcome,
        "error": row.error,
        "ran_by": row.ran_by,
        "round": row.number,
        "count": row.count,
        "since": row.since,
        "at": row.at,
    }


def _readable(said: dict[str, Any]) -> dict[str, Any]:
    """Times as RFC 3339."""
    return {name: moment(value) if name in TIMES else value for name, value in said.items()}
