"""Hears, over the channel layer, that somebody's access has changed. Whatever is missed is noticed by the regular look."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 2.0
QUIET_SECONDS = 30.0


class Brief(logging.Filter):
    """While Redis is away, the channel layer logs a traceback every second; a line now and then says as much."""

    _said_at = -QUIET_SECONDS

    def filter(self, record: logging.LogRecord) -> bool:
        problem = record.exc_info[1] if record.exc_info else None
        if not isinstance(problem, (RedisError, OSError)):
            return True
        if time.monotonic() - self._said_at < QUIET_SECONDS:
            return False
        self._said_at = time.monotonic()
        record.msg, record.args = f"the channel layer has lost Redis ({type(problem).__name__}), and tries again", ()
        record.exc_info = record.exc_text = None
        return True


logging.getLogger("channels_redis.pubsub").addFilter(Brief())


class Notices:
    """One channel for the process, in the groups of everybody who has a socket here."""

    def __init__(self, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._wanted: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def add(self, groups: Iterable[str]) -> None:
        self._wanted.update(groups)
        self._changed.set()

    def remove(self, groups: Iterable[str]) -> None:
        self._wanted.subtract(groups)
        self._wanted = +self._wanted
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled, whatever happens to Redis."""
        failing = False
        while True:
            try:
                await self._listen()
            except Exception as problem:
                if not failing:
                    log.warning("access_notices_lost", problem=type(problem).__name__)
                failing = True
            self._heard()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _listen(self) -> None:
        layer: Any = get_channel_layer()
        channel = await layer.new_channel()
        hearing = asyncio.create_task(self._hear(layer, channel))
        joined: set[str] = set()
        try:
            while not hearing.done():
                self._changed.clear()
                wanted = set(self._wanted)
                for group in wanted - joined:
                    await layer.group_add(group, channel)
                for group in joined - wanted:
                    await layer.group_discard(group, channel)
                joined = wanted
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait([changed, hearing], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
            hearing.result()
        finally:
            hearing.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await hearing

    async def _hear(self, layer: Any, channel: str) -> None:
        while True:
            await layer.receive(channel)
            self._heard()
