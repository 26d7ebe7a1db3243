"""Snapshots of the fleet for many sockets: taken from the tables once, encoded once, sent to all who come together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from controlplane.domain.fleetstate import State
from controlplane.ledger.position import Position
from controlplane.queries import history
from controlplane.queries.fleet import snapshot
from controlplane.queries.state import fleet_state

from .loops import one_per_loop
from .threads import asked
from .topic import Topic

FRESH_SECONDS = 1.0
PART_BYTES = 128 * 1024
"""Instances are sent in parts of about this size: no socket needs more memory than that, however large the fleet."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The state at `position`, as JSON objects that are merged, section by section."""

    position: Position
    parts: list[bytes]


class Snapshots:
    """The latest picture of each topic, for as long as it is fresh."""

    def __init__(self) -> None:
        self._taken: dict[Topic, tuple[float, asyncio.Task[Picture]]] = {}

    async def take(self, topic: Topic, *, not_before: float) -> Picture:
        """One that is being taken, or was a moment ago; but none whose taking began before `not_before` (loop time)."""
        loop = asyncio.get_running_loop()
        began, task = self._taken.get(topic, (0.0, None))
        fresh = task is not None and (not task.done() or loop.time() - began <= FRESH_SECONDS)
        if task is None or not fresh or began < not_before:
            began, task = loop.time(), loop.create_task(asked(lambda: _picture(topic)))
            self._taken[topic] = began, task
            task.add_done_callback(lambda done: loop.call_later(FRESH_SECONDS, self._forget, topic, done))
        # One who leaves must not take the picture away from the others.
        return await asyncio.shield(task)

    def _forget(self, topic: Topic, task: asyncio.Task[Picture]) -> None:
        if self._taken.get(topic, (0.0, None))[1] is task:
            del self._taken[topic]
        if not task.cancelled():
            # Said to whoever waited for it; if nobody did, it is nobody's concern.
            task.exception()


snapshots = one_per_loop(Snapshots)


def _picture(topic: Topic) -> Picture:
    with snapshot():
        cursor, state = fleet_state(topic.instance or None)
        position = history.position_of(cursor)
    return Picture(position, list(_parts(state)))


def _parts(state: State) -> Iterator[bytes]:
    """The first part has every section, the others only more instances."""
    sections = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in state.items() if name != "instances"}
    instances: dict[str, msgspec.Raw] = {}
    size = 0
    for name, instance in state["instances"].items():
        encoded = msgspec.json.encode(instance)
        if instances and size + len(encoded) > PART_BYTES:
            yield msgspec.json.encode({"instances": instances, **sections})
            instances, sections, size = {}, {}, 0
        instances[name] = msgspec.Raw(encoded)
        size += len(encoded)
    yield msgspec.json.encode({"instances": instances, **sections})
