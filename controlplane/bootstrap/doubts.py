"""Whom somebody doubts is asked at once: gateways, agents and operators say so through the API, we read it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from .fleet import Fleet, Instance
from .watch import Watch

log = structlog.get_logger()

POLL_SECONDS = 0.25
REACH = 200
"""Ids are given before they can be read: so many are looked back at, that none is missed which came out of turn."""

NEW = "SELECT id, instance_id FROM controlplane_suspicion WHERE id > %s ORDER BY id"

Read = Callable[[str, tuple[Any, ...]], Awaitable[list[tuple[Any, ...]]]]


class Doubts:
    """What was said before a term began is old: its ranks are asked anyway."""

    def __init__(self, fleet: Fleet, watch: Watch) -> None:
        self._fleet = fleet
        self._watch = watch
        self._seen: set[int] | None = None
        self._last = 0

    async def follow_forever(self, read: Read) -> None:
        while True:
            try:
                self.take(await read(NEW, (self._last - REACH,)))
            except Exception as problem:
                log.warning("doubts_not_read", problem=str(problem)[:300])
                await asyncio.sleep(1)
            await asyncio.sleep(POLL_SECONDS)

    def take(self, found: list[tuple[Any, ...]]) -> None:
        """Ask those that are new among (id, instance)."""
        new = [] if self._seen is None else [instance for id_, instance in found if id_ not in self._seen]
        self._seen = {id_ for id_, _ in found}
        self._last = max(self._seen, default=self._last)
        for id_ in dict.fromkeys(new):
            known = self._fleet.by_id.get(id_)
            if known is not None and not known.retired:
                self._ask(known)

    def _ask(self, instance: Instance) -> None:
        for address in instance.directory.watched(time.time()):
            self._watch.ask(instance, address)
        for session in instance.engines.sessions():
            self._watch.ask_session(instance, session)
