"""The metrics of a Celery worker: what its tasks came to, and the address at which that is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import structlog
from celery import signals
from django.conf import settings

from controlplane.metrics import clockwork, common, of_clockwork
from controlplane.metrics.catalogue import declared
from controlplane.metrics.clockwork import RUNNING, TASK_SECONDS, TASKS
from controlplane.metrics.listener import Page
from controlplane.metrics.metric import Sample
from controlplane.metrics.process import own
from controlplane.supervisor import ports
from controlplane.supervisor.exposing import expose

log = structlog.get_logger(__name__)

_began: dict[str, float] = {}
"""When each task that runs here began (monotonic), by its id."""


def collect() -> Iterator[Sample]:
    yield from own("celery")
    yield from clockwork.samples()


def name_of(task: Any) -> str:
    """
    >>> name_of("controlplane.tasks.drains.check_drains")
    'check_drains'
    """
    return str(getattr(task, "name", task)).rpartition(".")[2]


@signals.worker_init.connect
def _open(sender: Any = None, **_: Any) -> None:
    if settings.PDCP_METRICS_CELERY_PORT is None:
        return
    if "prefork" in str(getattr(sender, "pool_cls", "")):
        # Tasks would run in processes of their own, and be counted there, where nobody asks.
        log.warning("metrics_need_threads", advice="start the worker with -P threads")
        return
    try:
        expose("celery", {"/metrics": Page(collect, declared(common, of_clockwork))})
    except ports.PortTaken as taken:
        print(f"error: {taken}", file=sys.stderr)
        raise SystemExit(ports.EXIT_PORT_TAKEN) from None


@signals.task_prerun.connect
def _begin(task_id: str = "", **_: Any) -> None:
    RUNNING.move(1)
    _began[task_id] = time.monotonic()


@signals.task_postrun.connect
def _end(task_id: str = "", task: Any = None, state: str = "", **_: Any) -> None:
    began = _began.pop(task_id, None)
    if began is None:
        return
    RUNNING.move(-1)
    TASKS.add(name_of(task), "done" if state == "SUCCESS" else "failed")
    TASK_SECONDS.observe(time.monotonic() - began, name_of(task))


@signals.task_revoked.connect
def _expired(sender: Any = None, expired: bool = False, **_: Any) -> None:
    if expired:
        TASKS.add(name_of(sender), "expired")
