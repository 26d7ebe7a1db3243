"""What a commit can come to, besides success."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import OperationalError

RETRYABLE = ("40001", "40P01", "55P03")
TRIES = 3

T = TypeVar("T")


class FencedOut(Exception):
    """Another process holds the lease now: nothing was written, nothing may be answered."""


class OutcomeUnknown(Exception):
    """The connection broke while committing: the batch may or may not be stored."""


def tried_again(work: Callable[[], T]) -> T:
    """`work()`, once more after a serialisation failure, a deadlock or a lock that was not had in time."""
    for attempt in range(TRIES):
        try:
            return work()
        except OperationalError as problem:
            if getattr(problem.__cause__, "sqlstate", None) not in RETRYABLE or attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")
