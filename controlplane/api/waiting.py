"""Long polls: asked in a thread, waited for in none, asked again when the ledger has moved on.

While it waits, a request holds neither a thread nor a database connection: a thousand gateways may wait at once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

from asgiref.sync import SyncToAsync, sync_to_async
from django.db import DatabaseError, InterfaceError, connections
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from controlplane.ledger.hub import hub
from controlplane.ledger.tail import Cursor, head

from .errors import problem_of

MOST_SECONDS = 30.0
SPACING_SECONDS = 0.1
"""Between two looks of one request: in a storm of events it looks ten times a second, and gets them in bunches."""


def long_poll(view: Any, *, ready: Callable[[Any], bool]) -> Any:
    """`view`, asked again whenever the ledger has moved on, until `ready(document)` or the seconds of `wait` are over.

    Each time it is asked as if it had just come: a token that was revoked meanwhile gets 401.
    """
    answer = view.as_view()

    async def waiting(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            return await polled(request, kwargs)
        except Exception as problem:
            return problem_of(problem).answer()

    async def polled(request: HttpRequest, kwargs: dict[str, Any]) -> Any:
        until = time.monotonic() + _seconds(request)
        while True:
            at, response = await sync_to_async(_ask)(answer, request, kwargs)
            asked = time.monotonic()
            if at is None or asked >= until or response.status_code != 200 or ready(response.data):
                return response
            _let_the_thread_go()
            await hub().wait_beyond(at, until - asked)
            if time.monotonic() >= until:
                return response
            await asyncio.sleep(max(0.0, asked + SPACING_SECONDS - time.monotonic()))

    # What reads URL patterns (the schema, the permission matrix) finds the view.
    for name in ("cls", "view_class", "initkwargs"):
        setattr(waiting, name, getattr(answer, name))
    return csrf_exempt(waiting)


def _ask(answer: Callable[..., Any], request: HttpRequest, kwargs: dict[str, Any]) -> tuple[Cursor | None, Any]:
    """The head before the look, so that what is committed during it ends the waiting at once."""
    try:
        at = head()
    except (DatabaseError, InterfaceError):
        # The view says it better.
        at = None
    response = answer(request, **kwargs)
    if _seconds(request):
        connections.close_all()
    return at, response


def _seconds(request: HttpRequest) -> float:
    """How long to wait. What is no number is refused by the view itself."""
    try:
        seconds = float(request.GET.get("wait", "0"))
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), MOST_SECONDS) if math.isfinite(seconds) else 0.0


def _let_the_thread_go() -> None:
    """Django keeps one thread for each request under ASGI, idle or not. The next look gets another one."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context is not None else None
    if executor is not None:
        executor.shutdown(wait=False)
