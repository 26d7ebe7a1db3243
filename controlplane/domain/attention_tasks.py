"""What needs a person because time passed: tasks of ours that stopped or fail, worker processes that are late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .attention import Concern, Harm, Place, counted, sentence
from .clockwork import Standing, Task, at_rest


@dataclass(frozen=True, slots=True)
class LateWorkers:
    """The worker processes of one instance that are late; `named` are the first of them, with the slots they hold."""

    instance: str
    count: int
    named: Sequence[str]
    since: float


def of_tasks(tasks: Iterable[Task], *, heard_at: float | None, ran_by: str, now: float) -> Iterator[Concern]:
    """`heard_at`: when anything of the clockwork was last seen at work, by the process `ran_by`."""
    known = list(tasks)
    if at_rest(known, now=now):
        yield _nothing_runs(heard_at, ran_by)
        return
    for task in known:
        standing = task.standing(now)
        if standing is Standing.STOPPED:
            yield _concern(task, "has stopped: nobody does it any more", task.error, task.due_at())
        elif standing is Standing.FAILING:
            yield _concern(task, "fails each time", task.error, task.failing_since)


def _concern(task: Task, what: str, error: str, since: float | None) -> Concern:
    failing = what.startswith("fails")
    return Concern(
        harm=Harm.STUCK if task.often else Harm.DOUBT,
        state="failing" if failing else "stopped",
        name=f"Task “{task.title}”",
        at=Place("clockwork", task.key),
        what=what,
        why=sentence(f"the last round said: {error}" if error else "", "" if task.often else "it keeps tables small"),
        next="Read the log of the Celery worker" if failing else "Restart the Celery worker, and read its log",
        step="Show tasks",
        to=Place("clockwork"),
        since=since,
    )


def _nothing_runs(heard_at: float | None, ran_by: str) -> Concern:
    return Concern(
        harm=Harm.STUCK,
        state="stopped",
        name="The clockwork",
        at=Place("clockwork"),
        what="does not run: drains do not end, engines are not asked, nothing old is forgotten",
        why=sentence(f"the last to run it was {ran_by}" if ran_by else "nobody has ever run it here"),
        next="Start the Celery worker with its beat, or read its log",
        step="Show tasks",
        to=Place("clockwork"),
        since=heard_at,
        size=2**39,
    )


def of_late_workers(seen: Iterable[LateWorkers]) -> Iterator[Concern]:
    for one in seen:
        more = one.count - len(one.named)
        names = f"{', '.join(one.named)} and {more:,} more" if more else ", ".join(one.named)
        verb, whose = ("is", "its") if one.count == 1 else ("are", "their")
        yield Concern(
            harm=Harm.DOUBT,
            state="late",
            name=one.instance,
            at=Place("instance", one.instance),
            what=f"has {counted(one.count, 'worker')} that {verb} late with {whose} heartbeat",
            why=sentence(f"{names}: nothing was heard within the lease", STILL),
            next="See whether the process hangs, or cannot reach this control plane",
            step="Open instance",
            to=Place("instance", one.instance),
            since=one.since,
            size=one.count,
        )


STILL = "whether ranks count is decided by probes, not by heartbeats"
