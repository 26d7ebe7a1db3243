"""The bootstrap process: stands by until the lease is free, serves a term, stands by again or stops."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import structlog
from django.conf import settings
from django.db import DatabaseError, connections

from controlplane.databases import FACTS
from controlplane.domain.addresses import bracketed
from controlplane.metrics.catalogue import declared
from controlplane.metrics.listener import Page
from controlplane.supervisor.exposing import expose

from .exposure import DECLARED, Exposure
from .knobs import knobs
from .leader import Leader
from .lease import Lease

log = structlog.get_logger()

STAND_BY_POLL = 0.2


async def serve() -> None:
    """Until SIGTERM or SIGINT; a second one ends the wait of PDCP_STOP_DELAY_SECONDS. Raises PortTaken when a port cannot
    be had at the first start; for the metrics that of `supervisor.ports`."""
    exposure = Exposure()
    expose("bootstrap", {"/metrics": Page(exposure.collect, declared(*DECLARED))})
    stop, at_once = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: (at_once if stop.is_set() else stop).set())
    chosen = knobs()
    sqlite = connections[FACTS].vendor == "sqlite"
    data = settings.PDCP_DATA_DIR
    lease = Lease(
        data / "bootstrap.lock",
        settings.PDCP_LEASE_SECONDS,
        beat_file=Path(f"{connections[FACTS].settings_dict['NAME']}-beat") if sqlite else None,
    )
    lease_thread = ThreadPoolExecutor(1, "lease")
    stood_by = False
    while not stop.is_set():
        if not await _try(loop, lease_thread, lease):
            if not stood_by:
                stood_by = True
                print(f"bootstrap standing by pid={os.getpid()}", flush=True)
            try:
                async with asyncio.timeout(STAND_BY_POLL):
                    await stop.wait()
            except TimeoutError:
                pass
            continue
        leader = Leader(chosen, lease, lease_thread, sqlite=sqlite)
        kept = await leader.run(
            stop, at_once, patient=stood_by, announce=partial(_announce, chosen.host, exposure, leader)
        )
        exposure.stand_by()
        if kept:
            return
        log.error("term_ended", advice="another process leads, or a part of this one failed; standing by")
        stood_by = False


async def _try(loop: asyncio.AbstractEventLoop, thread: ThreadPoolExecutor, lease: Lease) -> bool:
    """One attempt at the lease. A database that is away is waited for, with a line in the log."""
    try:
        return await loop.run_in_executor(thread, lease.try_take)
    except DatabaseError as problem:
        log.warning("database_away", problem=str(problem)[:300])
        await asyncio.sleep(1)
        return False


def _announce(host: str, exposure: Exposure, leader: Leader, kv: int, engine: int) -> None:
    exposure.lead(leader)
    shown = bracketed(host)
    print(f"bootstrap ready kv={shown}:{kv} engine={shown}:{engine} pid={os.getpid()}", flush=True)
