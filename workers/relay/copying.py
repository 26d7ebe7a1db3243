"""Reading all that the control plane serves of an instance: the topology, and where the rank in every slot is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from controlplane.domain.launch import Launch
from controlplane.protocol.observed import TOPOLOGY_QUERY, read_slot, read_topology, slot_query

from .holding import launch_of
from .link import Link
from .records import Told

WINDOW = 16
MOST_SLOTS = 8192


@dataclass(frozen=True, slots=True)
class Whole:
    record: Told
    launch: Launch


class TooManyRanks(Exception):
    """What is served is more than a relay keeps a copy of; `topology` is the answer that says so, the text a sentence."""

    def __init__(self, topology: str, sentence: str) -> None:
        super().__init__(sentence)
        self.topology = topology


async def read_whole(link: Link, clock: Callable[[], float]) -> Whole | None:
    """What it serves now. None: nothing, or it changed while it was read, or it is away. Raises TooManyRanks, and Refused for
    nonsense."""
    before = await link.ask("GET", TOPOLOGY_QUERY)
    if before is None or before.status != 200:
        return None
    topology, _, _ = read_topology(before.body)
    if topology.size > MOST_SLOTS:
        said = f"{topology} is more than a relay keeps a copy of ({MOST_SLOTS} ranks)"
        raise TooManyRanks(before.body.decode(), said)
    slots = list(topology.slots())
    rows: list[tuple[int, int, int, int, str, int]] = []
    for start in range(0, len(slots), WINDOW):
        window = slots[start : start + WINDOW]
        answers = await asyncio.gather(*(link.ask("GET", slot_query(slot)) for slot in window))
        for slot, answer in zip(window, answers, strict=True):
            if answer is None or answer.status != 200:
                return None
            rows.append((*slot, *read_slot(answer.body)))
    after = await link.ask("GET", TOPOLOGY_QUERY)
    if after is None or after.status != 200 or after.body != before.body:
        return None
    record = Told(clock(), before.body.decode(), rows)
    return Whole(record, launch_of(record))
