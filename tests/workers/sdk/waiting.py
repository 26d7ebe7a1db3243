"""Waiting for what must become true, and not for time to pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

GENEROUS = 30.0


async def soon(true: Callable[[], Any], *, within: float = GENEROUS) -> Any:
    """The first true value of `true()`, or a failure."""
    end = time.monotonic() + within
    while not (value := true()):
        assert time.monotonic() < end, f"it did not come true within {within} s"
        await asyncio.sleep(0.01)
    return value


def soon_here(true: Callable[[], Any], *, within: float = GENEROUS) -> Any:
    """The same without an event loop."""
    end = time.monotonic() + within
    while not (value := true()):
        assert time.monotonic() < end, f"it did not come true within {within} s"
        time.sleep(0.01)
    return value
