"""Store what probes of engines came to, with the events that tell of it: a row only as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from controlplane.databases import FACTS
from controlplane.domain.engine_health import Memory
from controlplane.domain.engine_words import sentence
from controlplane.ledger.append import NewEvent
from controlplane.models import EngineHealth
from controlplane.queries.engine_health import columns_of, memory_of

from .transaction import record

TOLD = ("mode", "model", "version")
"""What an engine says of itself that the ledger is told when it changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One engine: what is stored, as `version`, and what is to be. Version 0: nothing is stored yet."""

    id: int
    name: str
    before: Memory
    after: Memory
    version: int


def keep(changes: Sequence[Change]) -> set[int]:
    """Those that were stored, in one transaction. Who was overtaken is left out, and tells nothing."""

    def work() -> tuple[set[int], list[NewEvent]]:
        kept = [change for change in changes if _stored(change)]
        return {change.id for change in kept}, [event for change in kept for event in _events(change)]

    return record(work)


def forget(left: Sequence[tuple[str, EngineHealth]]) -> int:
    """Engines that nobody is to ask any more: nothing is known of them. How many verdicts that ended."""
    changes = [Change(row.instance_id, name, memory_of(row), Memory(), row.version) for name, row in left]
    return len(keep(changes)) if changes else 0


def _stored(change: Change) -> bool:
    rows = EngineHealth.objects.using(FACTS)
    columns = columns_of(change.after)
    if change.version:
        own = rows.filter(instance_id=change.id, version=change.version)
        return bool(own.update(**columns, version=change.version + 1))
    try:
        with transaction.atomic(using=FACTS):
            rows.create(instance_id=change.id, version=1, **columns)
    except IntegrityError:
        return False
    return True


def _events(change: Change) -> list[NewEvent]:
    before, after = change.before, change.after
    events = []
    if before.verdict != after.verdict:
        data: dict[str, Any] = {
            "at": after.at,
            "before": before.state.value,
            "state": after.state.value,
            "why": after.why.value if after.why else "",
            "sentence": sentence(after),
        }
        events.append(NewEvent("engine.turned", change.name, data))
    if after.said and (after.identity != before.identity or _told(after) != _told(before)):
        told = {"at": after.at, "start": after.identity, "before": _told(before), "after": _told(after)}
        events.append(NewEvent("engine.identified", change.name, told))
    return events


def _told(memory: Memory) -> dict[str, Any]:
    return {name: memory.said[name] for name in TOLD if name in memory.said}
