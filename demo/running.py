"""A demo from its start to its end: the fleet up, said where to look, broken if that is wanted, kept up, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress

from .announcing import announce, closing, counted, now_line
from .chaos import Chaos, Tale
from .crew import Ended
from .fleet import Fleet, Stopped, fleet
from .preparing import Failed
from .settings import Settings
from .stage import Unseen

LINE_SECONDS = 30.0
LOOK_SECONDS = 0.5


async def run(settings: Settings) -> int:
    """Exit code: 0, or 1 when something was not seen or not mended. Raises Taken, Failed."""
    began, parent = time.monotonic(), os.getppid()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with fleet(settings, stop) as running:
            announce(settings, running.stage.plan, running.directory, running.password, time.monotonic() - began)
            tale = await _live(settings, running, stop, parent)
            closing(running.stage.gateway, tale)
    except Stopped:
        return 0
    except (Ended, Unseen) as problem:
        where = "" if settings.data is not None else "\nWith --data DIRECTORY its logs are kept."
        raise Failed(f"{problem}{where}") from None
    return 1 if tale.wrong else 0


async def _live(settings: Settings, running: Fleet, stop: asyncio.Event, parent: int) -> Tale:
    """Until it is stopped, or its time is over."""
    chaos = Chaos(running.stage, acts=settings.acts, seed=settings.seed, say=now_line)
    breaking = asyncio.create_task(_break(chaos, settings)) if settings.chaos else None
    began = told = time.monotonic()
    try:
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
            now = time.monotonic()
            running.stage.crew.look_after()
            if running.traffic.done():
                running.traffic.result()
            if breaking is not None and breaking.done():
                return breaking.result()
            if breaking is None and settings.seconds is not None and now - began >= settings.seconds:
                break
            if settings.end_with_parent and os.getppid() != parent:
                break
            if now - told >= LINE_SECONDS:
                told = now
                now_line(f"       {counted(running.stage.gateway)}")
        return chaos.tale
    finally:
        if breaking is not None:
            breaking.cancel()
            await asyncio.gather(breaking, return_exceptions=True)


async def _break(chaos: Chaos, settings: Settings) -> Tale:
    await asyncio.sleep(settings.calm)
    return await chaos.run(seconds=settings.seconds or 0, rounds=settings.rounds)
