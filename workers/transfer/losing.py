"""What a prefill rank that hung up amounts to, as values: a blip, a process that ended, or one that only says nothing.

ZeroMQ tells that a connection ended, and not why. A rank that lives keeps its port for as long as its process, so the answers
of the port decide: refused twice in a row, the process is gone. Silence, no route and a stranger prove nothing, and the rooms
keep their own bound. A rank that greets is there, or there again: whoever knows its identity is asked about that for a while,
for a launch that restarted at the same port is known to the directory only once it has registered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from controlplane.domain.contact import Contact
from workers.messaging.endpoint import Endpoint

REFUSALS = 2
APART_SECONDS = 0.5
"""Between two looks at a port that refused."""
AGAIN_SECONDS = 1.0
"""Between two looks at one that says nothing, and between two questions for the identity."""
QUESTIONS = 8
"""How often the identity of a rank that is back is asked for: a launch registers within seconds of taking its port."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """About one connection that ended. `due`: when to look, or to ask, next; a moment of the caller's monotonic clock."""

    due: float
    refusals: int = 0
    is_back: bool = False
    questions: int = 0

    @property
    def is_gone(self) -> bool:
        return self.refusals >= REFUSALS

    @property
    def is_over(self) -> bool:
        """Nothing more will be found out."""
        return self.is_gone or self.questions >= QUESTIONS


def look(doubt: Doubt, contact: Contact, *, now: float) -> Doubt:
    """What the port answered.

    >>> once = look(Doubt(due=5.0), Contact.REFUSED, now=5.0)
    >>> once.is_gone, once.due, look(once, Contact.REFUSED, now=5.5).is_gone
    (False, 5.5, True)
    """
    if contact is Contact.UP:
        return replace(doubt, refusals=0, is_back=True, due=now)
    if contact.is_proof_of_death:
        return replace(doubt, refusals=doubt.refusals + 1, due=now + APART_SECONDS)
    return replace(doubt, refusals=0, due=now + AGAIN_SECONDS)


def ask(doubt: Doubt, *, now: float) -> Doubt:
    """The identity was asked for once more."""
    return replace(doubt, questions=doubt.questions + 1, due=now + AGAIN_SECONDS)


def gone(rank: int, at: Endpoint) -> str:
    """
    >>> gone(3, Endpoint("10.0.0.7", 40001))
    'prefill rank 3 at 10.0.0.7:40001 is gone: it hung up, and its port refused 2 connections'
    """
    return f"prefill rank {rank} at {at} is gone: it hung up, and its port refused {REFUSALS} connections"


def restarted(rank: int, at: Endpoint, why: str) -> str:
    """
    >>> restarted(0, Endpoint("10.0.0.7", 40001), "launch 4 is there, not launch 3")
    'prefill rank 0 at 10.0.0.7:40001 hung up and restarted: launch 4 is there, not launch 3; what it had of the room is lost'
    """
    return f"prefill rank {rank} at {at} hung up and restarted: {why}; what it had of the room is lost"
