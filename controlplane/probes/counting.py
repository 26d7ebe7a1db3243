"""Counts requests to addresses that somebody told us, for the metrics: what came of each, and how long an answer took."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from controlplane.domain.errors import Refused
from controlplane.metrics.process import OUTGOING, OUTGOING_SECONDS

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

RESULTS = {"refused": "refused", "timeout": "timeout"}


def counted(fetch: Callable[Asked, Coroutine[Any, Any, Answer]]) -> Callable[Asked, Coroutine[Any, Any, Answer]]:
    """`fetch`, counted. What was refused before anybody was asked has no `why`."""

    @functools.wraps(fetch)
    async def asked(*args: Asked.args, **more: Asked.kwargs) -> Answer:
        began = time.monotonic()
        try:
            answer = await fetch(*args, **more)
        except Refused as refused:
            why = getattr(refused, "why", None)
            OUTGOING.add("forbidden" if why is None else RESULTS.get(why, "unusable"))
            raise
        OUTGOING.add("answered")
        OUTGOING_SECONDS.observe(time.monotonic() - began)
        return answer

    return asked
