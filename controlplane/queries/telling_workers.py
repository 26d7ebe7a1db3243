"""Events about worker processes as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.domain.topology import Slot

from .wording import span
from .workers import spoken

Data = Mapping[str, Any]


def _late(d: Data) -> str:
    slots = spoken([Slot(*slot) for slot in d["slots"]])
    holds = f" ({slots})" if slots else ""
    return (
        f"worker {d['worker']}{holds} is late: nothing was heard from it within its lease of {span(d['lease_seconds'])}"
    )


TELL: Mapping[str, Callable[[Data], str]] = {
    "worker.late": _late,
    "worker.back": lambda d: f"worker {d['worker']} was heard from again, {span(d['late_seconds'])} after it was late",
    "worker.gone": lambda d: f"worker {d['worker']} is not waited for any more: {d['why']}",
}
