"""A command that must keep the revision of its own events, in the same transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from django.db import transaction

from controlplane.databases import FACTS
from controlplane.ledger import wake
from controlplane.ledger.append import NewEvent, append

from .transaction import record

Result = TypeVar("Result")


def record_and_note(work: Callable[[], tuple[Result, list[NewEvent]]], note: Callable[[Result, int], None]) -> Result:
    """As `record`, and `note(result, revision of the last event)` before the commit.

    The ledger's head is held while `note` runs: one short statement, and only in commands that people give.
    """

    def whole() -> tuple[Result, list[NewEvent]]:
        result, events = work()
        if events:
            revision = append(events)
            note(result, revision)
            transaction.on_commit(partial(wake.publish, revision), using=FACTS)
        return result, []

    return record(whole)
