"""When a state of the fleet is stored, and which events may go: so that "as of" stays right for all that is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DAY = 86_400.0
STATE_EVERY_EVENTS = 20_000
"""What is replayed from a stored state is about as long at most."""

OFTEN = 8
"""A state is stored so many times in the span for which events are kept, once a day at least: events go that exactly."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored state: right after `revision`, which was written `at`."""

    revision: int
    at: float


def is_due(*, head: int, newest: Stored | None, now: float, keep_seconds: float) -> bool:
    """Whether the state at `head` shall be stored now. `keep_seconds`: how long events are kept, 0 for ever.

    >>> is_due(head=5, newest=None, now=0.0, keep_seconds=0), is_due(head=0, newest=None, now=0.0, keep_seconds=0)
    (True, False)
    """
    if newest is None:
        return head > 0
    if head <= newest.revision:
        return False
    if head - newest.revision >= STATE_EVERY_EVENTS:
        return True
    span = min(DAY, keep_seconds / OFTEN) if keep_seconds else DAY
    return now - newest.at >= span


def cut(states: Iterable[Stored], *, now: float, keep_seconds: float) -> int | None:
    """The revision before which events may go: a state is stored there, and it is old enough. None: nothing may.

    The event of that revision itself stays, so that a position behind it can be told from one of another history.

    >>> cut([Stored(10, 100.0), Stored(20, 200.0)], now=260.0, keep_seconds=100)
    10
    """
    if not keep_seconds:
        return None
    old = [state.revision for state in states if state.at <= now - keep_seconds]
    return max(old, default=None)
