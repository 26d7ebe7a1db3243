"""Sentences of the events about what was purged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .wording import counted

Data = Mapping[str, Any]


def _purged(d: Data) -> str:
    told = f"{d['name']} was purged: nothing is called so any more, and whoever registers under that name is new"
    if d["answering"]:
        return f"{told}; {counted(d['answering'], 'rank')} of it still answered, and that was overridden"
    return told


def _archive(d: Data) -> str:
    whose = f" of {d['instance']}" if d["instance"] else ""
    launches = "1 ended launch" if d["count"] == 1 else f"{d['count']} ended launches"
    return f"{launches}{whose} went out of the archive"


TELL: Mapping[str, Callable[[Data], str]] = {"instance.purged": _purged, "archive.purged": _archive}
