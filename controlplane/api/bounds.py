"""Bodies are bounded before Django has them: it would first write all of one to disk, whoever sends it, and then look."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .problems import MEDIA_TYPE, refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 2 * 2**20
"""More than any body of the API or a form of the admin may have; each view has a limit of its own below it."""


class TooLarge(Exception):
    """The body has gone past the limit."""


def bounded(behind: Application, *, limit: int = MOST_BYTES) -> Application:
    """`behind`, which never sees a body of more than `limit` bytes: the client is told 413 instead."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await behind(scope, receive, send)
            return
        if _declared(scope) > limit:
            await _refuse(send, limit)
            return
        taken, begun = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                raise TooLarge
            return message

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await behind(scope, counted, sending)
        except TooLarge:
            if not begun:
                await _refuse(send, limit)

    return application


def _declared(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(value) if value.isdigit() else 0


async def _refuse(send: Send, limit: int) -> None:
    problem = refusal("too_large", f"the body is larger than the limit of {limit} bytes")
    body = json.dumps(problem.document()).encode()
    # What is still coming is not read: the connection cannot be used again.
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
