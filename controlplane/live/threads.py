"""Questions to the database from the event loop: a few threads, whose connections go back after each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

from .loops import one_per_loop

THREADS = 4

_threads = one_per_loop(lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="live"))

Answer = TypeVar("Answer")


async def asked(work: Callable[[], Answer]) -> Answer:
    """`work()` in a thread."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), _and_let_go, work)


def _and_let_go(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    finally:
        connections.close_all()
