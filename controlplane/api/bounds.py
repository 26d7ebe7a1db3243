"""Bodies are bounded before Django has them: it would first write all of one to disk, whoever sends it, and then look."""

from __future__ import annotations

import asyncio
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


BODY_SECONDS = 30.0
"""For a whole body: it is held in memory meanwhile, and nobody has said yet who sends it."""


class TooLarge(Exception):
    """The body has gone past the limit."""


class TooSlow(Exception):
    """The body has not come in time."""


def bounded(behind: Application, *, limit: int = MOST_BYTES, seconds: float = BODY_SECONDS) -> Application:
    """`behind`, which never sees a body of more than `limit` bytes, nor waits longer for one: the client is told 413,
    or 503, instead."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await behind(scope, receive, send)
            return
        if _declared(scope) > limit:
            await _refuse(send, *_too_large(limit))
            return
        taken, begun, whole = 0, False, False
        until = asyncio.get_running_loop().time() + seconds

        async def counted() -> Message:
            nonlocal taken, whole
            if whole:
                # What comes now is only that the client went away.
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise TooSlow from None
            whole = not message.get("more_body", False)
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
                await _refuse(send, *_too_large(limit))
        except TooSlow:
            if not begun:
                await _refuse(send, "timeout", f"the body did not arrive within {seconds:.0f} s")

    return application


def _declared(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(value) if value.isdigit() else 0


def _too_large(limit: int) -> tuple[str, str]:
    return "too_large", f"the body is larger than the limit of {limit} bytes"


async def _refuse(send: Send, code: str, sentence: str) -> None:
    problem = refusal(code, sentence)
    body = json.dumps(problem.document()).encode()
    # What is still coming is not read: the connection cannot be used again.
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
