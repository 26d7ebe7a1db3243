"""Requests of an engine that do not get on, as its load tells from one look to the next. Pure.

Every sign of health may be good meanwhile: its server answers, its scheduler runs, and whoever is sent there waits. A prefill's
requests wait for their decodes then, a decode's for their KV cache or for memory.
"""

from __future__ import annotations

from collections.abc import Mapping

HELD_UP = "held_up_since"
"""Where it stands in a load: since when (epoch seconds) none of the requests that wait has got on."""

NEEDED = ("running", "waiting", "bootstrap", "inflight", "prealloc", "transfer", "retracted")
LOOKS_APART_SECONDS = 45.0
"""What happened between two looks that are further apart, nobody knows."""


def held_up(
    before: Mapping[str, int], after: Mapping[str, int], *, before_at: float | None, now: float
) -> dict[str, int]:
    """The load `after`, and since when nothing of it gets on, if that is so.

    >>> stuck = dict.fromkeys(NEEDED, 0) | {"bootstrap": 2, "waiting": 2}
    >>> held_up({}, stuck, before_at=None, now=100.0)[HELD_UP]
    100
    >>> held_up(held_up({}, stuck, before_at=None, now=100.0), stuck, before_at=100.0, now=110.0)[HELD_UP]
    100
    >>> HELD_UP in held_up({}, stuck | {"inflight": 1}, before_at=None, now=100.0)
    False
    """
    load = dict(after)
    if not _stands(load):
        return load
    since = before.get(HELD_UP)
    lately = before_at is not None and 0 <= now - before_at <= LOOKS_APART_SECONDS
    # One of them that is gone got on, or was given up: whoever is left may be next.
    goes_on = since is not None and since <= now and lately and queued(load) >= queued(before)
    load[HELD_UP] = since if goes_on and since is not None else int(now)
    return load


def queued(load: Mapping[str, int]) -> int:
    """How many requests wait for their other side."""
    return load.get("bootstrap", 0) + load.get("prealloc", 0) + load.get("transfer", 0)


def _stands(load: Mapping[str, int]) -> bool:
    """Requests wait for the other side, and there is nothing else: none is computed, and no KV cache is on its way out."""
    if any(name not in load for name in NEEDED) or not queued(load):
        return False
    own = load["waiting"] - queued(load)
    return not load["running"] and not load["inflight"] and not load["retracted"] and own <= 0
