"""Asks who holds the bootstrap port of an engine: its own server, a directory or relay of ours, or somebody else."""

from __future__ import annotations

from controlplane.domain.addresses import bracketed
from controlplane.domain.errors import Refused
from controlplane.protocol import observed

from .networks import ProbePolicy
from .outgoing import REFUSED, UNRESOLVED, Fetched, Unreachable, fetch
from .urls import parse

SECONDS = 1.0
LIMIT_BYTES = 64 * 1024
OURS = "/pd/v1/resolve"
"""A path that a directory or relay of ours has, and no GET for it."""


async def holder(engine_url: str, port: int, *, allowed: ProbePolicy) -> tuple[str, str]:
    """The address that decodes are sent to (the engine's host and this port), and who holds it: `bootstrap` (an engine's own
    server, or one that answers as it does), `ours`, `stranger`, `refused` (nobody) or `silent`. Both empty where that must
    not be asked from here. Raises nothing that is about the peer."""
    where = f"{bracketed(parse(engine_url, any_port=True).host)}:{port}"
    try:
        found = await _who(f"http://{where}", allowed)
    except Unreachable as missed:
        if missed.why == UNRESOLVED:
            return "", ""
        if missed.connected and missed.why != "timeout":
            return where, "stranger"
        return where, "refused" if missed.why == REFUSED else "silent"
    except Refused:
        return "", ""
    return where, found


async def _who(base: str, allowed: ProbePolicy) -> str:
    # One of ours is not asked as a decode asks: it would complain that we name nobody, or wait with us for ranks.
    alive = await _get(f"{base}/livez", allowed)
    if alive.status == 200 and alive.body == b"OK" and (await _get(base + OURS, allowed)).status == 405:
        return "ours"
    told = await _get(base + observed.TOPOLOGY_QUERY, allowed)
    return "bootstrap" if _as_a_bootstrap_server(told) else "stranger"


def _as_a_bootstrap_server(told: Fetched) -> bool:
    if told.status == 503:
        return observed.read_count(told.body) is not None
    if told.status != 200:
        return False
    try:
        observed.read_topology(told.body)
    except Refused:
        return False
    return True


async def _get(url: str, allowed: ProbePolicy) -> Fetched:
    return await fetch("GET", url, timeout=SECONDS, limit_bytes=LIMIT_BYTES, allowed=allowed)
