"""Many probes at once: bounded, budgeted per source, and never two of one address at a time, nor soon after each other."""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.domain.addresses import parse_ip
from controlplane.domain.contact import Contact, combine
from controlplane.probes.names import Unresolved, resolve
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.places import Places
from controlplane.probes.timing import Timing
from controlplane.probes.zmtp import greet_address

APART_SECONDS = 0.1
"""Between two probes of one address: a flood of registrations of it cannot make us knock at every one."""

MAX_REMEMBERED = 65_536


class Target(NamedTuple):
    """An advertised address, and the host that advertised it ("" when that was ourselves)."""

    host: str
    port: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one source may make us ask: `burst` probes at once, `per_second` in the long run.

    The defaults let one host (or one proxy in front of many) have 4,096 ranks swept every 2 s.
    """

    burst: int = 16_384
    per_second: float = 2048.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class Purse:
    """One token bucket per source; forgets the longest unseen source past `max_sources`."""

    budget: Budget
    max_sources: int = 4096
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def spend(self, source: str, *, now: float) -> bool:
        """Take one token of `source`, if it has one."""
        bucket = self._buckets.get(source)
        if bucket is None:
            bucket = self._buckets[source] = _Bucket(self.budget.burst, now)
            if len(self._buckets) > self.max_sources:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(source)
        earned = (now - bucket.at) * self.budget.per_second
        bucket.tokens, bucket.at = min(self.budget.burst, bucket.tokens + earned), now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


class Prober:
    """Asks addresses whether a rank is there. One per process and event loop.

    A target that the policy forbids, or whose source has spent its budget, is UNPROBED: no evidence either
    way. `timeout` (seconds) bounds each probe from the moment it gets one of `places`.
    """

    def __init__(
        self,
        policy: ProbePolicy,
        *,
        timeout: float = 1.0,
        places: Places | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.policy = policy
        self.timeout = timeout
        self.timing = Timing()
        self._places = places or Places(64, 192)
        self._purse = Purse(budget or Budget())
        self._asking: dict[tuple[str, int], asyncio.Task[Contact]] = {}
        # When each address may be asked again, the longest unasked first.
        self._due: OrderedDict[tuple[str, int], float] = OrderedDict()

    async def probe(self, target: Target) -> Contact:
        """What one target answers now, or what the probe that is under way or about to begin for its address hears."""
        if parse_ip(target.host):
            return await self._probe_address(target.host, target)
        # A look-up costs as much as a probe, and is bounded and budgeted like one.
        if not self._purse.spend(target.source, now=asyncio.get_running_loop().time()):
            return Contact.UNPROBED
        place = await self._places.take()
        try:
            async with asyncio.timeout(self.timeout):
                addresses = await resolve(target.host)
        except (Unresolved, TimeoutError) as failure:
            # Of a name that does not exist nobody can be reached; that no name server answers says nothing about the rank.
            unknown = isinstance(failure, Unresolved) and failure.unknown
            return Contact.UNREACHED if unknown else Contact.UNPROBED
        finally:
            place.give_back()
        return combine(await asyncio.gather(*(self._probe_address(ip, target) for ip in addresses)))

    async def probe_many(self, targets: Iterable[Target]) -> dict[Target, Contact]:
        """Every target with its answer."""
        distinct = list(dict.fromkeys(targets))
        answers = await asyncio.gather(*(self.probe(target) for target in distinct))
        return dict(zip(distinct, answers, strict=True))

    async def close(self) -> None:
        """Give up what is under way; those who wait for it are cancelled."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _probe_address(self, ip: str, target: Target) -> Contact:
        if not self.policy.may_probe(ip, target.port, source_ip=target.source):
            return Contact.UNPROBED
        asking = self._asking.get((ip, target.port))
        if asking is None:
            if not self._purse.spend(target.source, now=asyncio.get_running_loop().time()):
                return Contact.UNPROBED
            asking = asyncio.create_task(self._greet(ip, target.port))
            self._asking[ip, target.port] = asking
            asking.add_done_callback(lambda _: self._asking.pop((ip, target.port), None))
        # One caller that gives up must not take the answer away from the others.
        return await asyncio.shield(asking)

    async def _greet(self, ip: str, port: int) -> Contact:
        loop = asyncio.get_running_loop()
        begin = max(loop.time(), self._due.get((ip, port), 0.0))
        self._due[ip, port] = begin + APART_SECONDS
        self._due.move_to_end((ip, port))
        if len(self._due) > MAX_REMEMBERED:
            self._due.popitem(last=False)
        await asyncio.sleep(begin - loop.time())
        place = await self._places.take()
        try:
            began = loop.time()
            contact = await greet_address(ip, port, deadline=began + self.timeout)
            self.timing.heard(contact, loop.time() - began)
            return contact
        finally:
            place.give_back()


def is_local_address(ip: str) -> bool:
    """For ProbePolicy.is_own: this host has the address now, since a socket can be bound to it."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as here:
            here.bind((ip, 0))
    except OSError:
        return False
    return True
