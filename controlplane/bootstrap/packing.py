"""Large engine-info bodies are parsed in a process of their own: a 57 MiB JSON would hold this interpreter for 325 ms."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from controlplane.protocol.engine_info import Publication, read_publication


class Packer:
    """Starts its process with the first large body."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    async def parse(self, body: bytes) -> Publication:
        """`read_publication` elsewhere. Raises what it raises."""
        loop = asyncio.get_running_loop()
        for attempt in (1, 2):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
                )
            try:
                return await loop.run_in_executor(self._pool, read_publication, body)
            except BrokenProcessPool:
                self._pool = None
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    # The parent may have died before the kernel was asked.
    if os.getppid() != parent:
        os._exit(1)
