"""Sentences of the events about alarms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .wording import span

Data = Mapping[str, Any]


def _what(d: Data) -> str:
    return f"alarm {d['alarm']} ({d['severity']}): {d['name']} {d['what']}"


def _resolved(d: Data) -> str:
    after = f" after {span(d['open_seconds'])}" if d.get("open_seconds") is not None else ""
    return f"alarm {d['alarm']} ({d['severity']}) is over{after}: {d['name']} {d['what']}"


TELL: Mapping[str, Callable[[Data], str]] = {
    "alarm.raised": _what,
    "alarm.acknowledged": lambda d: f"somebody looks after alarm {d['alarm']}: {d['name']} {d['what']}",
    "alarm.resolved": _resolved,
}
