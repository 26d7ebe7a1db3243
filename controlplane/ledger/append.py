"""Append events to the ledger, last in the caller's transaction. For commands; the recorder has its own bulk path."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.db import connections

from controlplane.databases import FACTS
from controlplane.models import Event

ADVANCE = "UPDATE controlplane_ledgerhead SET revision = revision + %s WHERE id = 1 RETURNING revision"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What happened, to which instance, by whom and why; `data` must be JSON-serialisable."""

    kind: str
    instance: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    actor: str = ""
    reason: str = ""


def append(events: Sequence[NewEvent]) -> int:
    """Give `events` the next revisions and store them. The new head's revision.

    Must run inside `transaction.atomic(using=FACTS)`, after the facts: taking the head early would make every other
    writer wait for the rest of the transaction.
    """
    connection = connections[FACTS]
    if not connection.in_atomic_block:
        raise RuntimeError("append() needs the transaction that writes the facts")
    with connection.cursor() as cursor:
        cursor.execute(ADVANCE, [len(events)])
        (head,) = cursor.fetchone()
    first = head - len(events) + 1
    now = time.time()
    Event.objects.using(FACTS).bulk_create(
        Event(
            revision=first + offset,
            at=now,
            kind=event.kind,
            instance=event.instance,
            actor=event.actor,
            reason=event.reason,
            data=msgspec.json.encode(event.data).decode(),
        )
        for offset, event in enumerate(events)
    )
    return int(head)
