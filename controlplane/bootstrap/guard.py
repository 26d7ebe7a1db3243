"""Who may pass the doors: the gates as settings want them, and the tokens that open them, as the ledger has them.

Only digests are in memory. What a token opened is never remembered by a listener, so that no answer outlives it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, connections

from controlplane.access import tokens
from controlplane.access.gates import Gate, Gates
from controlplane.access.headers import token_in_raw
from controlplane.access.keyring import Key, Keyring, well_formed
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused

from .request import Request

log = structlog.get_logger()

# Whoever made a token may be deactivated, which no event of ours tells.
REFRESH_SECONDS = 5.0

# Whoever shows tokens that do not exist causes no more look-ups than these, and waits for them.
LOOK_EVERY_SECONDS = 0.1
LOOK_SECONDS = 3.0
NOT_LOOKED_UP = "this token is not known here, and tokens made lately cannot be looked up right now; try again"

Read = Callable[..., Awaitable[Any]]


class Guard:
    """`read` runs blocking work in a thread. Without gates that want tokens, none are loaded and nothing is followed."""

    def __init__(self, gates: Gates, read: Read) -> None:
        self.gates = gates
        self._read = read
        self._keys = Keyring()
        self._used: set[str] = set()
        self._loading = asyncio.Lock()
        self._looked_at = float("-inf")
        self._look: asyncio.Future[None] | None = None

    async def learns(self, request: Request) -> bool:
        """Whether a token that was not known is by now: one that was made a moment ago is looked up before it is refused.

        Raises Refused ("unavailable") when that cannot be done.
        """
        token = token_in_raw(request.head.headers)
        if not self.gates.want_tokens or token is None or not well_formed(token):
            return False
        if self._look is None:
            self._look = asyncio.ensure_future(self._look_soon())
        try:
            await asyncio.wait_for(asyncio.shield(self._look), LOOK_SECONDS)
        except Exception as problem:
            log.warning("tokens_not_read", problem=type(problem).__name__)
            raise Refused(NOT_LOOKED_UP, code="unavailable") from problem
        return self._keys.find(token, now=time.time()) is not None

    async def _look_soon(self) -> None:
        await asyncio.sleep(max(0.0, self._looked_at + LOOK_EVERY_SECONDS - time.monotonic()))
        # What is made from now on, this look may miss: whoever comes from now on waits for the next.
        self._looked_at, self._look = time.monotonic(), None
        await self.load()

    def admit(self, gate: Gate, request: Request, instance: Callable[[], str]) -> bool:
        """Raises Refused. True when the source alone opens the gate: whoever comes from there is answered alike."""
        if gate.open or gate.is_settled_by(request.source):
            return True
        token = token_in_raw(request.head.headers)
        key = self._keys.find(token, now=time.time()) if token is not None else None
        gate.check_token(token, key.who(request.source) if key is not None else None, instance)
        if key is not None:
            self._used.add(key.digest)
        return False

    async def load(self) -> None:
        """The tokens as they are stored now: one reading after the other, so that none brings back what is older."""
        if self.gates.want_tokens:
            async with self._loading:
                self._keys = Keyring(await self._read(_stored_keys))

    async def refresh_forever(self) -> None:
        """The ledger tells of tokens made and revoked; this is for what it does not tell, and for `last_used_at`."""
        while self.gates.want_tokens:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self.load()
                used, self._used = self._used, set()
                if used:
                    await self._read(lambda digests: tokens.note_use(digests, now=time.time()), used)
            except Exception as problem:
                log.warning("tokens_not_read", problem=type(problem).__name__)


def _stored_keys() -> list[Key]:
    try:
        return tokens.keys()
    except (OperationalError, InterfaceError):
        # A connection that died while nobody used it is found out by the first who does.
        connections[FACTS].close()
        return tokens.keys()
