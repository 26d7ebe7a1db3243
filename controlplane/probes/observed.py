"""Asks the servers of an engine that knows nothing of us: its ranks, its weights, what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.errors import Refused
from controlplane.domain.launch import Address
from controlplane.domain.observing import Heard, State
from controlplane.domain.topology import Slot
from controlplane.protocol import observed

from .networks import ProbePolicy
from .outgoing import REFUSED, Fetched, Unreachable, fetch
from .workers import INFO_LIMIT_BYTES, INFO_PATHS

SMALL_BYTES = 64 * 1024
SECONDS = 2.0
WEIGHTS_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Asker:
    """`allowed`: what may be asked from here."""

    allowed: ProbePolicy
    weights_limit: int

    async def topology(self, url: str) -> Heard:
        """What its KV bootstrap server says of all of its ranks."""
        try:
            answer = await self._get(url + observed.TOPOLOGY_QUERY)
        except Refused as refused:
            return unheard(refused)
        if answer.status == 503 and (count := observed.read_count(answer.body)) is not None:
            return Heard(State.FILLING, count=count)
        if answer.status != 200:
            return Heard(State.STRANGE, why=f"status {answer.status} for its topology")
        try:
            topology, facts, port = observed.read_topology(answer.body)
        except Refused as refused:
            return Heard(State.STRANGE, why=refused.sentence)
        return Heard(State.LISTED, topology, facts, port)

    async def slot(self, url: str, slot: Slot) -> Address | None:
        """Who sits there; None for nobody. Raises Refused when that cannot be told now."""
        answer = await self._get(url + observed.slot_query(slot))
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Unreachable(f"status {answer.status} for {slot}", why=str(answer.status))
        return observed.read_slot(answer.body)

    async def engine(self, url: str, key: str) -> tuple[Heard, str, Mapping[str, Any]]:
        """Which start of the engine answers at its HTTP server, and what it says that it is."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            for path in INFO_PATHS:
                answer = await self._get(url + path, headers=headers, limit=INFO_LIMIT_BYTES)
                if answer.status != 404:
                    break
        except Refused as refused:
            return unheard(refused), "", {}
        if answer.status != 200:
            return Heard(State.STRANGE, why=f"status {answer.status} for what it is"), "", {}
        try:
            identity, said = observed.read_server_info(answer.body)
        except Refused as refused:
            return Heard(State.STRANGE, why=refused.sentence), "", {}
        return Heard(State.LISTED), identity, said

    async def publishes(self, url: str) -> Heard:
        """Whether its engine-info server is there."""
        try:
            answer = await self._get(f"{url}/health")
        except Refused as refused:
            return unheard(refused)
        if answer.status != 200:
            return Heard(State.STRANGE, why=f"status {answer.status} for /health")
        return Heard(State.LISTED)

    async def weights(self, url: str, rank: int) -> bytes | None:
        """What a rank published, as the request that did it; None when it published nothing. Raises Refused."""
        answer = await self._get(
            url + observed.INFO_PATH.format(rank=rank), timeout=WEIGHTS_SECONDS, limit=self.weights_limit
        )
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Refused(f"status {answer.status} for the weights of rank {rank}", code="strange")
        return observed.as_publication(answer.body)

    async def _get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = SECONDS,
        limit: int = SMALL_BYTES,
    ) -> Fetched:
        return await fetch("GET", url, headers=headers, timeout=timeout, limit_bytes=limit, allowed=self.allowed)


def unheard(refused: Refused) -> Heard:
    """What it means that there was no answer."""
    if isinstance(refused, Unreachable):
        return Heard(State.REFUSED if refused.why == REFUSED else State.SILENT)
    if refused.code == "too_many":
        # That is our own fault, and says nothing.
        return Heard(State.UNASKED)
    if refused.code == "forbidden":
        return Heard(State.UNASKED, why=refused.sentence)
    return Heard(State.STRANGE, why=refused.sentence)
