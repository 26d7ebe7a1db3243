"""The clockwork in the database as workers would have written it."""

from __future__ import annotations

import time

from controlplane.databases import TRAFFIC
from controlplane.models import TaskRound
from controlplane.queries.clockwork import schedule

AHEAD_SECONDS = 86_400.0


def all_run(*, at: float | None = None) -> None:
    """Every task has just run; by default so that it counts as that whatever time a test says that it is."""
    began = time.time() + AHEAD_SECONDS if at is None else at
    for task, (_, every) in schedule().items():
        said = {"number": 7, "done": 7, "outcome": "ok", "took_seconds": 0.01, "failures": 0, "error": ""}
        times = {"began_at": began, "ended_at": began + 0.01, "ok_at": began + 0.01, "failing_since": None}
        who = {"ran_by": "host-a pid 11", "sent_by": "gen12@host-a", "every_seconds": every, "within_seconds": 30.0}
        TaskRound.objects.using(TRAFFIC).update_or_create(task=task, defaults={**said, **times, **who})


def stand(task: str, **columns: object) -> None:
    """How one of them stands."""
    TaskRound.objects.using(TRAFFIC).filter(task=task).update(**columns)
