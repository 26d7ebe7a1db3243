"""Whom probes ask, in which order, and what is known of them so far."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from controlplane.domain.contact import Contact
from controlplane.domain.launch import Address

from .fleet import Fleet, Instance

WALK = 500
"""So many ranks are walked at a time: a large fleet takes a while, and the wire does not wait for it."""

NEVER = float("-inf")

Whom = tuple[int, Address | str]
"""A rank by its address, or a session of weights, of the instance with this id."""


class Turns:
    """Who is asked next: whoever was not for longest. So nobody waits longer than the others, whoever comes and goes."""

    def __init__(self) -> None:
        self._asked: OrderedDict[Whom, float] = OrderedDict()

    def asked(self, whom: Whom, now: float) -> None:
        self._asked[whom] = now
        self._asked.move_to_end(whom)

    def keep(self, everybody: set[Whom]) -> None:
        """Whoever is gone is not asked again, and whoever was never asked comes first."""
        for gone in self._asked.keys() - everybody:
            del self._asked[gone]
        for new in everybody - self._asked.keys():
            self._asked[new] = NEVER
            self._asked.move_to_end(new, last=False)

    def due(self, before: float, most: int) -> list[Whom]:
        """At most so many who were last asked before that."""
        found: list[Whom] = []
        for whom, asked_at in self._asked.items():
            if asked_at > before or len(found) >= most:
                break
            found.append(whom)
        return found


async def everybody(fleet: Fleet) -> tuple[set[Whom], set[Address]]:
    """Every rank and every session of weights; and the addresses alone."""
    whole: set[Whom] = set()
    watched: set[Address] = set()
    walked = 0
    for instance in list(fleet.by_id.values()):
        if instance.retired:
            continue
        own = instance.directory.watched(time.time())
        watched |= own
        whole.update((instance.id, address) for address in own)
        whole.update((instance.id, session) for session in instance.engines.sessions())
        walked += 1 + len(own)
        if walked > WALK:
            walked = 0
            await asyncio.sleep(0)
    return whole, watched


def known_contact(instance: Instance, address: Address) -> Contact | None:
    """What this address answered when it was last recorded; None when nobody holds it."""
    for launch in instance.directory.launches():
        slot = launch.at.get(address)
        if slot is not None:
            return launch.rows[slot].contact
    return None
