"""Bodies that pass through the web process: bounded each, bounded together, and never waited for without end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from controlplane.domain.errors import Refused

BODY_SECONDS = 30.0


class ClientGone(Exception):
    """The client went away before its body was here."""


class Budget:
    """Bytes of bodies in memory at once. What would exceed it is refused, not queued: the clients try again."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        if self.used + size > self.limit:
            raise Refused("too many large uploads are in progress; try again", code="unavailable")
        self.used += size


@asynccontextmanager
async def read_body(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    *,
    limit: int,
    budget: Budget,
) -> AsyncIterator[bytes]:
    """The whole body, held against the budget while the block runs. Raises Refused (413, 503, 400) or ClientGone."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if int(declared) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    taken = 0
    try:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ClientGone
                    part = message.get("body", b"")
                    if taken + len(part) > limit:
                        raise _too_large(limit)
                    budget.take(len(part))
                    taken += len(part)
                    parts.append(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refused(f"the body did not arrive within {BODY_SECONDS:.0f} s", code="timeout") from None
        yield b"".join(parts)
    finally:
        budget.used -= taken


def _too_large(limit: int) -> Refused:
    return Refused(f"the body is larger than the limit of {limit} bytes", code="too_large")
