"""How evidence is said to a control plane of another version than this SDK, and what its answers say of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .errors import Fault

NEWER = frozenset({"batch", "took_seconds"})
"""Fields that were added to reports since the first version; without them a report says the same, with less."""

ITEMS = "evidence"
LEFT_OUT_SECONDS = 600.0
"""For so long a field that is not known is left out; then the control plane may have been upgraded."""


class Dialect:
    """Which fields this control plane is told. Times in seconds, of one clock."""

    def __init__(self) -> None:
        self.left_out: frozenset[str] = frozenset()
        self._since = 0.0

    def said(self, report: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """The report as it understands it."""
        if self.left_out and now - self._since > LEFT_OUT_SECONDS:
            self.left_out = frozenset()
        if not self.left_out:
            return report
        items = [_without(item, self.left_out) for item in report[ITEMS]]
        return _without({**report, ITEMS: items}, self.left_out)

    def learn(self, faults: Iterable[Fault], now: float) -> frozenset[str]:
        """After a refusal: fields that are left out from now on, and were not before."""
        fresh = unknown_fields(faults) - self.left_out
        if fresh:
            self.left_out, self._since = self.left_out | fresh, now
        return fresh


def _without(fields: Mapping[str, Any], left_out: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in left_out}


def unknown_fields(faults: Iterable[Fault]) -> frozenset[str]:
    """Those of NEWER that an older control plane says it does not know.

    >>> sorted(unknown_fields([Fault("/batch", "unknown"), Fault("/evidence/3/took_seconds", "unknown")]))
    ['batch', 'took_seconds']
    >>> unknown_fields([Fault("/batch/number", "min_value"), Fault("/source", "unknown")])
    frozenset()
    """
    named = {fault.pointer.rpartition("/")[2] for fault in faults if fault.code == "unknown"}
    return NEWER & named


def items_at_fault(faults: Iterable[Fault]) -> frozenset[int]:
    """Places of the items that make no sense there, when nothing but items is at fault; else none.

    >>> items_at_fault([Fault("/evidence/3/rung", "invalid_choice"), Fault("/evidence/3/result", "invalid")])
    frozenset({3})
    >>> items_at_fault([Fault("/evidence/3/rung", "invalid_choice"), Fault("/source", "max_length")])
    frozenset()
    """
    places = set()
    for fault in faults:
        _, first, *rest = [*fault.pointer.split("/"), ""]
        if first != ITEMS or not (rest[0].isascii() and rest[0].isdecimal() and len(rest[0]) < 10):
            return frozenset()
        places.add(int(rest[0]))
    return frozenset(places)


class _Kept(msgspec.Struct):
    unknown: list[str] = []


_KEPT = msgspec.json.Decoder(_Kept)


def unknown_instances(body: bytes) -> list[str]:
    """Whom the answer to a report names as nobody: of what is about them, nothing was kept.

    >>> unknown_instances(b'{"kept": 1, "left_out": 0, "unknown": ["prefil-a"], "repeated": false}'), unknown_instances(b"OK")
    (['prefil-a'], [])
    """
    try:
        return _KEPT.decode(body).unknown
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
