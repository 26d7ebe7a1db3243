"""Sentences of the events about gateways, breakers and routers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .wording import listing

Data = Mapping[str, Any]
BREAKERS = {"closed": "closed", "open": "open", "half_open": "half open: a probe may pass"}


def _turned(d: Data) -> str:
    whose = f"router {d['gateway'][7:]}" if d["gateway"].startswith("router:") else f"gateway {d['gateway']}"
    what = "" if d["dp"] is None else f" for DP group {d['dp']}"
    why = f": {d['reason']}" if d.get("reason") else ""
    return f"the breaker of {whose}{what} is {BREAKERS[d['after']]}, before {d['before'].replace('_', ' ')}{why}"


def _joined(d: Data) -> str:
    return f"gateway {d['gateway']} joined" + (f" from {d['url']}" if d["url"] else "")


def _router(d: Data) -> str:
    members = listing(d["instances"]) if d["instances"] else "no instance"
    return f"router {d['router']} at {d['url']}, kept in step with {members}"


TELL: Mapping[str, Callable[[Data], str]] = {
    "breaker.turned": _turned,
    "gateway.joined": _joined,
    "gateway.left": lambda d: f"gateway {d['gateway']} left: {d['why']}",
    "router.added": lambda d: f"{_router(d)}: added",
    "router.changed": lambda d: f"{_router(d)}: changed",
    "router.removed": lambda d: f"router {d['router']} at {d['url']} is not kept in step any more",
    "router.restarted": lambda d: f"router {d['router']} came back empty: it is told of its workers again",
    "router.worker_added": lambda d: f"router {d['router']} sends to {d['worker']} now: {d['why']}",
    "router.worker_removed": lambda d: f"router {d['router']} sends nothing to {d['worker']} any more: {d['why']}",
}
