"""Reading request bodies: bounded each, bounded together, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from controlplane.domain.errors import Refused

Receive = Callable[[], Awaitable[dict[str, Any]]]

BODY_SECONDS = 30.0


class Disconnected(Exception):
    """The client went away before its body was here."""


class UploadBudget:
    """Bytes of large bodies that may be in memory at once; small ones are not counted."""

    def __init__(self, limit: int, *, counted_from: int = 65_536) -> None:
        self.limit = limit
        self.used = 0
        self.counted_from = counted_from
        self._freed = asyncio.Condition()

    async def take(self, size: int) -> int:
        """Wait for room for `size` bytes, a few seconds at most; what has to be given back."""
        if size < self.counted_from:
            return 0
        if self.used + size > self.limit:
            async with self._freed:
                try:
                    async with asyncio.timeout(4):
                        await self._freed.wait_for(lambda: self.used + size <= self.limit)
                except TimeoutError:
                    raise Refused("too many large uploads are in progress; try again", code="unavailable") from None
        self.used += size
        return size

    async def give_back(self, size: int) -> None:
        if size:
            self.used -= size
            async with self._freed:
                self._freed.notify_all()


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int, budget: UploadBudget) -> bytes:
    """The whole body, at most `limit` bytes. Raises Refused (413, 503) or Disconnected."""
    declared = headers.get(b"content-length")
    # httptools has checked that a content-length is a number.
    size = int(declared) if declared else 0
    if size > limit:
        raise too_large(limit)
    message = await receive()
    if not message.get("more_body"):
        if message["type"] != "http.request":
            raise Disconnected
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise too_large(limit)
        return body
    taken = await budget.take(size or limit)
    try:
        return await _read_rest(receive, message, limit)
    finally:
        await budget.give_back(taken)


async def _read_rest(receive: Receive, message: dict[str, Any], limit: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                if message["type"] != "http.request":
                    raise Disconnected
                part = message.get("body", b"")
                total += len(part)
                if total > limit:
                    raise too_large(limit)
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
                message = await receive()
    except TimeoutError:
        raise Refused(f"the body did not arrive within {BODY_SECONDS:.0f} s", code="timeout") from None


def too_large(limit: int) -> Refused:
    return Refused(f"the body is larger than the limit of {limit} bytes", code="too_large")
