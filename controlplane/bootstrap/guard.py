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
from controlplane.access.keyring import Key, Keyring
from controlplane.databases import FACTS

from .request import Request

log = structlog.get_logger()

# Whoever made a token may be deactivated, which no event of ours tells.
REFRESH_SECONDS = 5.0

Read = Callable[..., Awaitable[Any]]


class Guard:
    """`read` runs blocking work in a thread. Without gates that want tokens, none are loaded and nothing is followed."""

    def __init__(self, gates: Gates, read: Read) -> None:
        self.gates = gates
        self._read = read
        self._keys = Keyring()
        self._used: set[str] = set()

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
        """The tokens as they are stored now."""
        if self.gates.want_tokens:
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
