"""One look at an observed instance: ask its servers, in an order that tells one start of the engine from the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from controlplane.access import secrets
from controlplane.domain.addresses import parse_ip
from controlplane.domain.errors import Refused
from controlplane.domain.launch import CONFIRM_AFTER, Address
from controlplane.domain.observing import Heard, Memory, State, hear, identify, wants_identity, wants_slots
from controlplane.domain.topology import Slot
from controlplane.probes.names import resolve
from controlplane.probes.observed import Asker
from controlplane.probes.urls import parse

from .fleet import Instance, Observed
from .mirroring import Listing

REQUESTS_PER_SECOND = 50.0
BURST = 64
SLOTS_AT_ONCE = 4


class Pace:
    """What all observed instances together may be asked, so that the wire does not feel it."""

    def __init__(self, per_second: float = REQUESTS_PER_SECOND, burst: int = BURST) -> None:
        self._apart, self._saved = 1 / per_second, burst / per_second
        self._next = 0.0

    async def turn(self) -> None:
        """Wait until one more request may go out."""
        now = time.monotonic()
        self._next = max(self._next, now - self._saved) + self._apart
        if self._next > now:
            await asyncio.sleep(self._next - now)


class Looker:
    """Asks, and records nothing."""

    def __init__(self, asker: Asker, pace: Pace) -> None:
        self._asker = asker
        self._pace = pace

    async def look(self, instance: Instance, memory: Memory, *, fresh: bool) -> tuple[Memory, Listing | None]:
        """What is known after this look; who sits where, when that was read. `fresh`: read everything."""
        if instance.observed.url and instance.role != "decode":
            return await self._ranks(instance, memory, fresh=fresh)
        if not instance.observed.url:
            url = instance.observed.info_url
            return (await self._hear(memory, lambda: self._asker.publishes(url)))[0], None
        if fresh or wants_identity(memory, time.time()):
            return await self._engine_alone(instance.observed, memory), None
        return memory, None

    async def source(self, url: str) -> str:
        """The address behind a URL: a loopback address that it tells means that host's own. Empty when it has none now."""
        host = parse(url).host
        if parse_ip(host) is not None:
            return host
        try:
            async with asyncio.timeout(1.0):
                return (await resolve(host))[0]
        except (OSError, TimeoutError):
            return ""

    async def _ranks(self, instance: Instance, memory: Memory, *, fresh: bool) -> tuple[Memory, Listing | None]:
        url = instance.observed.url
        memory, heard = await self._hear(memory, lambda: self._asker.topology(url))
        if heard.state is not State.LISTED or heard.topology is None or heard.facts is None:
            return memory, None
        if instance.observed.engine_url and (fresh or wants_identity(memory, time.time())):
            memory = await self._identified(instance.observed, memory)
        if not fresh and not wants_slots(memory, instance.directory, time.time()):
            return memory, None
        slots = await self._slots(url, list(heard.topology.slots()))
        # Read over a while: it counts when the server says the same at its end.
        await self._pace.turn()
        if slots is None or await self._asker.topology(url) != heard:
            return memory, None
        source = await self.source(url)
        flags = {ip: self._asker.allowed.flags_for(ip, source) for ip in {ip for ip, _ in slots.values()}}
        listing = Listing(heard.topology, heard.facts, slots, heard.http_port, flags)
        return replace(memory, listed_at=time.time()), listing

    async def _hear(self, memory: Memory, ask: Callable[[], Awaitable[Heard]]) -> tuple[Memory, Heard]:
        """A refusal counts only twice: the first is asked again at once."""
        for _ in range(2):
            await self._pace.turn()
            heard = await ask()
            if heard.state is State.UNASKED and not heard.why:
                # We had spent what one address may be asked: that says nothing.
                return memory, heard
            before, memory = memory, hear(memory, heard, time.time())
            if heard.state is not State.REFUSED or before.refused_at is not None:
                break
            await asyncio.sleep(CONFIRM_AFTER + 0.02)
        return memory, heard

    async def _engine_alone(self, observed: Observed, memory: Memory) -> Memory:
        told: tuple[str, Mapping[str, Any]] = ("", {})

        async def ask() -> Heard:
            nonlocal told
            heard, identity, said = await self._asker.engine(observed.url, _key_for(observed, observed.url))
            told = (identity, said)
            return heard

        memory, heard = await self._hear(memory, ask)
        return identify(memory, *told, time.time()) if heard.state is State.LISTED else memory

    async def _identified(self, observed: Observed, memory: Memory) -> Memory:
        await self._pace.turn()
        url = observed.engine_url
        heard, identity, said = await self._asker.engine(url, _key_for(observed, url))
        if heard.state is not State.LISTED:
            # It may be starting: its ranks register before it serves. What it was is all that is known.
            return replace(memory, identified_at=time.time())
        return identify(memory, identity, said, time.time())

    async def _slots(self, url: str, slots: list[Slot]) -> dict[Slot, Address] | None:
        """Who sits where; None when one of them could not be asked."""
        found: dict[Slot, Address] = {}
        waiting = iter(slots)

        async def ask() -> None:
            for slot in waiting:
                await self._pace.turn()
                address = await self._asker.slot(url, slot)
                if address is not None:
                    found[slot] = address

        asking = [asyncio.create_task(ask()) for _ in range(SLOTS_AT_ONCE)]
        try:
            await asyncio.gather(*asking)
        except Refused:
            return None
        finally:
            for task in asking:
                task.cancel()
        return {slot: found[slot] for slot in slots if slot in found}


def _key_for(observed: Observed, url: str) -> str:
    """The engine's key, where it may be sent: to its own server, and nowhere else."""
    if not observed.key or not observed.engine_url:
        return ""
    there, engine = parse(url), parse(observed.engine_url)
    same = (there.scheme, there.host, there.port) == (engine.scheme, engine.host, engine.port)
    return (secrets.unseal(observed.key) or "") if same else ""
