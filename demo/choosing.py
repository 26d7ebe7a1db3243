"""Whom the demo's gateway sends the next request, by the fleet that it follows and by how the last ones went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.domain.engine_health import BLOCKING

FAILURES_TO_OPEN = 3
RETRY_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Pair:
    prefill: str
    decode: str


def pairs(state: Mapping[str, Any], names: Iterable[str]) -> list[Pair]:
    """Those of these instances that may be sent a request together, by `controlplane.domain.fleetstate`."""
    known = {name: state["instances"][name] for name in names if name in state["instances"]}
    ready = [name for name, instance in known.items() if _may(instance)]
    prefills = [name for name in ready if known[name]["role"] == "prefill"]
    decodes = [name for name in ready if known[name]["role"] == "decode"]
    return [Pair(prefill, decode) for prefill in prefills for decode in decodes]


def _may(instance: Mapping[str, Any]) -> bool:
    if instance["intent"] != "enabled" or not instance["engine_url"] or instance["engine"]["state"] in BLOCKING:
        return False
    if instance["role"] != "prefill":
        return instance["role"] == "decode"
    whole = any(launch["role"] == "current" and launch["complete"] for launch in instance["launches"].values())
    return whole and instance["debt"] is None


@dataclass(slots=True)
class Breakers:
    """Three failures in a row open one; after `RETRY_SECONDS` a request tries it again."""

    _failed: dict[str, int] = field(default_factory=dict)
    _opened: dict[str, float] = field(default_factory=dict)

    def state(self, name: str, now: float) -> str:
        """
        >>> breakers = Breakers()
        >>> for _ in range(3): breakers.judge("decode-a", ok=False, now=10.0)
        >>> breakers.state("decode-a", 11.0), breakers.state("decode-a", 14.0), breakers.state("decode-b", 11.0)
        ('open', 'half_open', 'closed')
        """
        opened = self._opened.get(name)
        if opened is None:
            return "closed"
        return "open" if now - opened < RETRY_SECONDS else "half_open"

    def judge(self, name: str, *, ok: bool, now: float) -> None:
        if ok:
            self._failed.pop(name, None)
            self._opened.pop(name, None)
            return
        self._failed[name] = self._failed.get(name, 0) + 1
        if self._failed[name] >= FAILURES_TO_OPEN:
            self._opened[name] = now

    def let_through(self, found: Iterable[Pair], now: float) -> list[Pair]:
        return [pair for pair in found if all(self.state(n, now) != "open" for n in (pair.prefill, pair.decode))]


def blamed(prefill: int, decode: int) -> str | None:
    """Whose fault a request is by the statuses of its two legs (0: nobody answered): prefill, decode, or None.

    A prefill that says 504 waited for its decode in vain; what else it says of itself is its own.

    >>> blamed(200, 200), blamed(0, 503), blamed(504, 0), blamed(200, 502)
    (None, 'prefill', 'decode', 'decode')
    """
    if prefill in (0, 500, 502, 503):
        return "prefill"
    if prefill == 504 or decode == 0 or decode >= 500:
        return "decode"
    return None
