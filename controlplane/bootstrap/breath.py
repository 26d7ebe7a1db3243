"""Leaves SQLite's write lock to other processes often enough, and costs nothing while there is room anyway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

MOST_HELD = 0.6
WINDOW_SECONDS = 0.02


class Breath:
    """Writers that wait for SQLite's lock poll for it. When commits follow each other without a gap they miss it for
    seconds; so after a window in which the lock was held most of the time there is a pause of `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._window_at = time.monotonic()
        self._held = 0.0

    @contextmanager
    def holding(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._held += time.monotonic() - began

    async def take(self) -> None:
        if not self._seconds:
            return
        now = time.monotonic()
        elapsed = now - self._window_at
        if elapsed < WINDOW_SECONDS:
            return
        crowded = self._held > MOST_HELD * elapsed
        self._window_at, self._held = now, 0.0
        if crowded:
            await asyncio.sleep(self._seconds)
