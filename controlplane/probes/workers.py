"""Is an engine ready to be handed to a router? It answers /health, says what it is, and does not turn our key away."""

from __future__ import annotations

import msgspec

from controlplane.domain.errors import Refused

from .networks import ProbePolicy
from .outgoing import fetch

# An idle engine generates a token before it answers.
HEALTH_SECONDS = 3.0
INFO_SECONDS = 1.0
INFO_LIMIT_BYTES = 4 * 2**20
# Older engines know it under the second name only.
INFO_PATHS = ("/server_info", "/get_server_info")


async def why_not_ready(url: str, *, kind: str, key: str = "", allowed: ProbePolicy | None = None) -> str:
    """The sentence that says what is wrong with the engine at `url`; empty when a router can have it.

    A router that is told of a dead engine waits for it, and for nothing else meanwhile.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        health = await fetch("GET", f"{url}/health", headers=headers, timeout=HEALTH_SECONDS, allowed=allowed)
        if health.status in (401, 403):
            return _unauthenticated(key)
        if health.status != 200:
            return "the engine's /health does not answer 200"
        for path in INFO_PATHS:
            told = await fetch(
                "GET",
                f"{url}{path}",
                headers=headers,
                timeout=INFO_SECONDS,
                limit_bytes=INFO_LIMIT_BYTES,
                allowed=allowed,
            )
            if told.status != 404:
                break
    except Refused as refused:
        return f"the engine: {refused.sentence}"
    # Open to all is /health alone: what comes after it tells whether the key fits.
    if told.status in (401, 403):
        return _unauthenticated(key)
    mode = _mode(told.body) if told.status == 200 else ""
    if not mode:
        # Addresses are given to others: many a program answers 200 to /health.
        return f"whoever answers there does not say that it is a {kind}"
    return "" if mode == kind else f"the engine says that it is not a {kind}"


def _unauthenticated(key: str) -> str:
    if key:
        return "authentication failed: the engine does not accept the key that is known here"
    return "authentication failed: the engine asks for a key, and none is known here"


def _mode(body: bytes) -> str:
    """Its disaggregation mode, if it has one and says so."""
    try:
        told = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return ""
    mode = told.get("disaggregation_mode") if isinstance(told, dict) else None
    return mode if mode in ("prefill", "decode") else ""
