"""Sentences of the events about intents and drains."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from .wording import counted, listing

Data = Mapping[str, Any]


def _what(d: Data) -> str:
    return "the instance" if d["dp"] is None else f"dp{d['dp']}"


def _intent(d: Data) -> str:
    if d["before"] == d["after"]:
        return f"{_what(d)} is {d['after']} still"
    return f"{_what(d)} is {d['after']}, was {d['before']}"


def _started(d: Data) -> str:
    launch = f" (launch {d['launch']})" if d["launch"] is not None else ", where nobody is registered,"
    until = ""
    if d["deadline_at"] is not None:
        until = f", until {datetime.datetime.fromtimestamp(d['deadline_at'], datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    kept = f", with {counted(d['min_ready'], 'instance')} of its role to remain" if d["min_ready"] else ""
    return f"drain {d['drain']} of {_what(d)}{launch} began{until}{kept}"


PROGRESS = {
    "waiting": "waits",
    "empty": "is empty, and must be proven",
    "drained": "is drained",
    "overdue": "is past its deadline",
}


def _progressed(d: Data) -> str:
    launch = f", launch {d['launch']}," if d.get("launch") is not None else ""
    said = f"drain {d['drain']} of {_what(d)}{launch} {PROGRESS[d['after']]}"
    return f"{said}: {listing(d['blockers'], limit=3)}" if d["blockers"] else said


def _ended(d: Data) -> str:
    said = {
        "drained": f"drain {d['drain']} of {_what(d)} ended, drained",
        "forced": f"drain {d['drain']} of {_what(d)} was ended by force: it is not drained",
        "cancelled": f"drain {d['drain']} of {_what(d)} was cancelled",
    }[d["result"]]
    whole = d["safe_to_delete"] and d["launch"] is not None and d["dp"] is None
    safe = f"; launch {d['launch']} may be deleted" if whole else ""
    return said + safe


TELL: Mapping[str, Callable[[Data], str]] = {
    "intent.changed": _intent,
    "drain.started": _started,
    "drain.progressed": _progressed,
    "drain.ended": _ended,
}
