"""What every task of ours is: one that is sent by beat runs as a round, claimed in the database before it begins.

So it does not matter how many beats send it, how many workers take it, or how often it is delivered: acknowledged when it is
done, a message whose worker was killed comes again, and finds that its round is over or that the next one is due.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from celery import Task
from django.db import Error

from controlplane.commands import rounds
from controlplane.commands.rounds import Begun, Plan
from controlplane.domain.clockwork import HELD_SECONDS, SPACING
from controlplane.models import TaskRound
from controlplane.queries import clockwork
from controlplane.queries.wording import span

from .process import is_gone, this_process

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Place:
    """What this process knows of one task: how many of its rounds run here, and what it could not write yet."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    running: dict[int, float] = field(default_factory=dict)
    """When each began, on the monotonic clock, by the thread that runs it."""
    claimed_at: float | None = None
    unwritten: tuple[Begun, dict[str, Any]] | None = None


_places: defaultdict[str, Place] = defaultdict(Place)


def schedule() -> dict[str, float]:
    """The period of each scheduled task, in seconds, by the name that Celery knows it by."""
    return {name: every for name, _, every in clockwork.entries()}


def key_of(name: str) -> str:
    """
    >>> key_of("controlplane.tasks.drains.check_drains")
    'check_drains'
    """
    return name.rpartition(".")[2]


def longest_running(now: float) -> float:
    """For how many seconds the longest of the rounds that run in this process has been running."""
    return max((now - began for place in list(_places.values()) for began in list(place.running.values())), default=0.0)


class Leapt(Exception):
    """The clock seems to have gone ahead: what is deleted by it now may not be old at all."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the clock went ahead by {seconds / 86_400:,.0f} days or more, or nobody ran this for so long:"
            f" nothing is deleted for {span(HELD_SECONDS)}, so that a wrong clock can be set right"
        )


class Round(Task):
    """The base of all tasks. A task may say `at_once`, how many of its rounds a process runs beside each other,
    `within_seconds`, after which a round is given up and the next may begin: its own time-outs must end it before, and
    `deletes`: it takes away what is old, and does not where the clock has leapt."""

    abstract = True
    acks_late = True
    reject_on_worker_lost = True
    at_once = 1
    within_seconds = 30.0
    deletes = False
    throws = (Leapt,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request = self.request
        if request.called_directly:
            return super().__call__(*args, **kwargs)
        every = schedule().get(self.name)
        if every is None or not getattr(request, "celery_beat_task", False):
            # Somebody asked for it: that is no round.
            return self.run(*args, **kwargs)
        plan = Plan(key_of(self.name), every, self.within_seconds, overlaps=self.at_once > 1)
        sent_by = str(request.origin or "")
        take(plan, lambda: self.run(*args, **kwargs), at_once=self.at_once, sent_by=sent_by, deletes=self.deletes)
        return None


def take(plan: Plan, work: Any, *, at_once: int = 1, sent_by: str = "", deletes: bool = False) -> bool:
    """Run `work` as the next round, if that is due and nobody has it; whether it ran. What it raises is kept and raised."""
    place, thread = _places[plan.task], threading.get_ident()
    began = time.monotonic()
    with place.lock:
        # Asked of nobody: while a database is away those who wait for it must not fill all threads.
        just_now = place.claimed_at is not None and began - place.claimed_at < SPACING * plan.every
        if just_now or len(place.running) >= at_once:
            return False
        place.running[thread] = began
    try:
        begun = _claim(plan, place, sent_by)
        if begun is not None:
            place.claimed_at = began
            _run(begun, partial(_refuse, begun) if deletes and begun.leapt else work, place)
        return begun is not None
    finally:
        with place.lock:
            del place.running[thread]


def _refuse(begun: Begun) -> None:
    raise Leapt(begun.leapt)


def _claim(plan: Plan, place: Place, sent_by: str) -> Begun | None:
    try:
        if place.unwritten is not None:
            begun, said = place.unwritten
            rounds.end(begun, **said)
            place.unwritten = None
        return rounds.begin(plan, this_process(), sent_by=sent_by, is_gone=is_gone)
    except Error as problem:
        # It is sent again when it is due again.
        log.warning("round_not_begun", task=plan.task, problem=str(problem)[:300])
        return None


def _run(begun: Begun, work: Any, place: Place) -> None:
    started = time.monotonic()
    said: dict[str, Any] = {"outcome": TaskRound.Outcome.OK, "error": ""}
    try:
        work()
    except BaseException as problem:
        said = {"outcome": TaskRound.Outcome.FAILED, "error": f"{type(problem).__name__}: {problem}".strip(": ")}
        raise
    finally:
        said["took"] = time.monotonic() - started
        try:
            rounds.end(begun, **said)
        except Error as problem:
            place.unwritten = (begun, said)
            log.warning("round_not_ended", task=begun.task, problem=str(problem)[:300])
