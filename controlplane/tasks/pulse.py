"""Leaves a sign of life of the clockwork after every task, for the pages that say how our own processes do."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from celery import signals
from django.core.cache import cache

from controlplane.queries.badges import PULSE

KEPT_SECONDS = 86_400


@signals.task_postrun.connect
def leave_a_sign(**_: Any) -> None:
    # Redis may be away; then nobody can see that we live, but we do.
    with contextlib.suppress(Exception):
        cache.set(PULSE, time.time(), KEPT_SECONDS)
