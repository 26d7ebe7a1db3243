"""Keeps the lease while a term lasts, and says until when this process may answer."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import structlog

from controlplane.ledger.failures import FencedOut

from .lease import Lease

log = structlog.get_logger()

DEADLINE_SHARE = 0.9
RENEWALS_PER_LEASE = 4


class Tenure:
    """`deadline` is monotonic: it ends before a stand-by could take over, however long we were frozen meanwhile."""

    def __init__(self, lease: Lease, thread: ThreadPoolExecutor) -> None:
        self.lease = lease
        self._thread = thread
        self.deadline = time.monotonic() + lease.seconds * DEADLINE_SHARE
        self.lost = asyncio.Event()

    def may_answer(self) -> bool:
        return time.monotonic() < self.deadline

    def lose(self) -> None:
        self.deadline = 0.0
        self.lost.set()

    async def keep(self) -> None:
        """Renew four times a lease. A renewal that fails is tried again; the deadline decides, not the attempts."""
        while True:
            await asyncio.sleep(self.lease.seconds / RENEWALS_PER_LEASE)
            began = time.monotonic()
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self.lease.renew)
                self.deadline = began + self.lease.seconds * DEADLINE_SHARE
            except FencedOut:
                log.error("lease_lost")
                self.lose()
                return
            except Exception as problem:
                log.warning("lease_not_renewed", problem=str(problem)[:300])

    async def end(self) -> None:
        """Give the seat to whoever comes next, unless somebody took it."""
        self.deadline = 0.0
        if self.lost.is_set():
            self.lease.step_down()
        else:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.lease.release)
