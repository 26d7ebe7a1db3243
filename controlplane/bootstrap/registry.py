"""Instances that come into being by registering: one transaction of their own, before the registration."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from controlplane.domain.errors import Refused
from controlplane.ledger.failures import OutcomeUnknown
from controlplane.ledger.store import ADVANCE, FactStore

from .fleet import MAX_INSTANCES, Fleet, Instance

FIND = "SELECT id, role, intent, own_port, host_alias FROM controlplane_instance WHERE name = %s"
ADD = """
INSERT INTO controlplane_instance (name, role, intent, created_at, next_launch, debt_hold)
VALUES (%s, %s, 'enabled', %s, 1, %s) RETURNING id, role, intent, own_port, host_alias"""
EVENT = """
INSERT INTO controlplane_event (revision, at, kind, instance, actor, reason, data)
VALUES (%s, %s, 'instance.added', %s, '', 'registered itself', %s)"""


class Registry:
    """Adds an instance once, however many ranks arrive at the same moment."""

    def __init__(self, fleet: Fleet, store: FactStore, thread: ThreadPoolExecutor, *, token: int) -> None:
        self._fleet = fleet
        self._store = store
        self._token = token
        # The recorder's own thread: two writers of one process would wait for each other in SQLite's busy handler.
        self._thread = thread
        self._adopting: dict[str, asyncio.Task[Instance]] = {}

    async def adopt(self, name: str, *, publishes_only: bool = False) -> Instance:
        """`publishes_only`: with the weights that bring it into being nobody who names no instance means it."""
        known = self._fleet.named(name)
        if known is not None:
            return known
        task = self._adopting.get(name)
        if task is None:
            if len(self._fleet.by_name) + len(self._adopting) >= MAX_INSTANCES:
                raise Refused(f"there are {MAX_INSTANCES} instances already; retire some", code="unavailable")
            # A task of its own: who asked first may hang up, and the others go on in one step when it is done.
            task = self._adopting[name] = asyncio.create_task(self._add(name, publishes_only))
            task.add_done_callback(lambda _: self._adopting.pop(name, None))
        return await asyncio.shield(task)

    async def _add(self, name: str, publishes_only: bool) -> Instance:
        loop = asyncio.get_running_loop()

        def add() -> Any:
            return self._store.transact(self._token, lambda c: _add(c, name))

        try:
            row = await loop.run_in_executor(self._thread, add)
        except OutcomeUnknown:
            # _add() looks first, so asking once more finds out.
            row = await loop.run_in_executor(self._thread, add)
        # An operator may have added it by command meanwhile, and the inbox heard of it first.
        known = self._fleet.named(name)
        if known is None:
            known = Instance(row[0], name, row[1], row[2], row[3], row[4], publishes_only=publishes_only)
            self._fleet.add(known)
        return known


def _add(cursor: Any, name: str) -> Any:
    now = time.time()
    cursor.execute(FIND, (name,))
    found = cursor.fetchone()
    if found is not None:
        return found
    cursor.execute(ADD, (name, "prefill", now, False))
    row = cursor.fetchone()
    cursor.execute(ADVANCE, [1])
    (revision,) = cursor.fetchone()
    data = {"name": name, "role": "prefill", "own_port": None, "host_alias": None}
    cursor.execute(EVENT, (revision, now, name, msgspec.json.encode(data).decode()))
    return row
