"""A steady stream of room bindings, as prefill ranks post them when routing does not follow the room."""

from __future__ import annotations

import asyncio
import random

from controlplane.simulation.report import Reporter
from controlplane.simulation.wire import Answer, Wire

TELL_EVERY_SECONDS = 5.0
IN_FLIGHT = 64


async def bind_rooms(wire: Wire, *, per_second: float, dp_size: int, reporter: Reporter) -> None:
    """Bind new random rooms to random DP ranks until cancelled; behind schedule it skips, never bursts."""
    loop = asyncio.get_running_loop()
    posted: set[asyncio.Task[Answer]] = set()
    bound = failed = skipped = 0

    def count(task: asyncio.Task[Answer]) -> None:
        nonlocal bound, failed
        posted.discard(task)
        if not task.cancelled():
            bound, failed = bound + task.result().ok, failed + (not task.result().ok)

    due = tell_at = loop.time()
    try:
        while True:
            due += 1 / per_second
            await asyncio.sleep(max(0.0, due - loop.time()))
            if len(posted) < IN_FLIGHT:
                task = asyncio.create_task(wire.bind_room(random.getrandbits(63), random.randrange(dp_size)))
                task.add_done_callback(count)
                posted.add(task)
            else:
                skipped += 1
            if loop.time() - tell_at >= TELL_EVERY_SECONDS:
                tell_at = loop.time()
                sentence = f"rooms: {bound} bound, {failed} failed, {skipped} skipped"
                reporter.tell("rooms", sentence, bound=bound, failed=failed, skipped=skipped)
    finally:
        for task in posted:
            task.cancel()
