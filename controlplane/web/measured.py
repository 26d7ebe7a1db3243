"""Around the whole ASGI application: counts its requests and how long they take, by what was asked."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from controlplane.metrics.web import REQUEST_SECONDS, REQUESTS, UNDER_WAY

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

AREA_OF = {
    "api": "api",
    "admin": "admin",
    "static": "static",
    "i": "wire",
    "livez": "own",
    "readyz": "own",
    "metrics": "own",
}
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNANSWERED = "none"
"""Instead of a status: the client went away first, or the process failed before it said anything."""


def measured(behind: Application) -> Application:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await behind(scope, receive, send)
            return
        status = UNANSWERED

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        began = time.monotonic()
        UNDER_WAY.move(1)
        try:
            await behind(scope, receive, watched)
        finally:
            UNDER_WAY.move(-1)
            area, method = area_of(scope["path"]), scope["method"]
            REQUESTS.add(area, method if method in METHODS else "other", status)
            REQUEST_SECONDS.observe(time.monotonic() - began, area)

    return application


def area_of(path: str) -> str:
    """
    >>> area_of("/api/v1/fleet"), area_of("/i/prefill-a/route"), area_of("/metrics/fleet"), area_of("/instances/api/")
    ('api', 'wire', 'own', 'page')
    """
    return AREA_OF.get(path[1:].partition("/")[0], "page")
