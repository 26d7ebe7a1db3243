"""Tell live sockets that somebody's access may have changed. A word only makes them fast: they look again by themselves.

A socket joins the groups of whoever opened it, and on `{"type": "access.changed"}` asks `identity.still()`.
"""

from __future__ import annotations

import asyncio
import hashlib

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from controlplane.access.roles import Who

log = structlog.get_logger(__name__)

MESSAGE = {"type": "access.changed"}
SEND_SECONDS = 1.0


def groups_of(who: Who) -> list[str]:
    """The channel groups that hear of changes to what `who` may do."""
    if who.via == "token":
        return [_group("token", who.key)]
    return [_group("session", who.key), _group("user", who.name)]


def say_token_changed(token_key: str) -> None:
    _say(_group("token", token_key))


def say_session_ended(session_key: str) -> None:
    _say(_group("session", session_key))


def say_user_changed(username: str) -> None:
    _say(_group("user", username))


def _group(kind: str, key: str) -> str:
    # A session's key is a secret and a name may hold anything: neither goes to Redis as it is.
    return f"access.{kind}.{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _say(group: str) -> None:
    """Never raises, and never takes long: whatever Redis does, what was changed is changed."""
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(_send)(layer, group)
    except Exception as problem:
        log.warning("access_change_not_told", problem=type(problem).__name__)


async def _send(layer: object, group: str) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await layer.group_send(group, dict(MESSAGE))  # type: ignore[attr-defined]
