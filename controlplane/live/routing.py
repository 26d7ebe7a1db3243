"""Which consumer a socket gets, by its path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from channels.routing import URLRouter
from django.urls import path, re_path

from .consumer import FleetConsumer, NowhereConsumer

Message = MutableMapping[str, Any]

_router = URLRouter([path("ws/fleet", FleetConsumer.as_asgi()), re_path(r"", NowhereConsumer.as_asgi())])


async def websockets(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """The ASGI application for scopes of type websocket."""
    # The server logs what stands in the query when a socket is accepted. A token that somebody put there, where it is
    # refused, must not be in a log too.
    scope["asked"], scope["query_string"] = scope["query_string"], b""
    await _router(scope, receive, send)
