"""A dry run: the command itself, with all of its refusals, in a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import transaction

from controlplane.databases import FACTS

Result = TypeVar("Result")


def rehearse(work: Callable[[], Result]) -> Result:
    """What `work` would have answered. Nothing is stored, and nobody hears of it."""
    with transaction.atomic(using=FACTS):
        result = work()
        transaction.set_rollback(True, using=FACTS)
    return result
