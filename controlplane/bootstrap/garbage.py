"""How Python's collector works in a process that holds a fleet: rarely over what is old, so that look-ups need not wait."""

from __future__ import annotations

import asyncio
import gc

COLLECT_SECONDS = 60.0


def settle() -> None:
    """Once what there is at the start has been loaded."""
    # That lives as long as the process; the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    # A registration makes few cycles and many long-lived values: at the usual pace the collector would walk all of
    # the fleet again and again, and look-ups would wait for it. The young are looked at, the old once a minute.
    gc.set_threshold(20_000, 1_000, 1_000)


async def collect_forever() -> None:
    """What young collections left behind in middle age. Most of the fleet is older, frozen, and not walked."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        gc.collect(1)
