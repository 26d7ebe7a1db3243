"""One transaction a command: facts first, then their events, then the word that they are there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from django.db import OperationalError, connections, transaction

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.ledger import wake
from controlplane.ledger.append import NewEvent, append

Result = TypeVar("Result")

RETRYABLE = ("40001", "40P01", "55P03")
TRIES = 3
MAX_ACTOR = 150
MAX_REASON = 2000


def record(work: Callable[[], tuple[Result, list[NewEvent]]]) -> Result:
    """Run `work` and append the events it returns, in one transaction; without events nothing was changed.

    A serialisation failure or a lock that was not had in time is tried again, with all of `work`.
    """
    for attempt in range(1, TRIES + 1):
        try:
            return _once(work)
        except OperationalError as problem:
            code = getattr(problem.__cause__, "sqlstate", None)
            if code not in RETRYABLE or attempt == TRIES or connections[FACTS].in_atomic_block:
                raise
    raise AssertionError("unreachable")


def _once(work: Callable[[], tuple[Result, list[NewEvent]]]) -> Result:
    with transaction.atomic(using=FACTS):
        result, events = work()
        if events:
            revision = append(events)
            transaction.on_commit(partial(wake.publish, revision), using=FACTS)
    return result


TURNS_TEXT = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Embeddings, overrides and isolates of Unicode's bidirectional algorithm: they reach beyond the text that they stand in."""


def check_who_and_why(actor: str, reason: str) -> None:
    """Refuse what would not fit into the ledger, where it stays for ever."""
    if not actor.strip():
        raise Refused("an actor is needed: the ledger says who changed what", code="malformed")
    if len(actor) > MAX_ACTOR:
        raise Refused(f"the actor's name has {len(actor)} characters; at most {MAX_ACTOR} are kept", code="malformed")
    if len(reason) > MAX_REASON:
        raise Refused(f"the reason has {len(reason)} characters; at most {MAX_REASON} are kept", code="malformed")
    if "\x00" in actor or "\x00" in reason:
        raise Refused("actor and reason cannot contain a NUL character", code="malformed")
    if any("\ud800" <= letter <= "\udfff" for letter in actor + reason):
        # What a shell hands on that is no UTF-8.
        raise Refused("actor and reason must be text: some of it is no character", code="malformed")
    if turned := next((letter for letter in actor + reason if letter in TURNS_TEXT), None):
        said = f"actor and reason must not hold U+{ord(turned):04X}: with it a sentence reads otherwise than it was written"
        raise Refused(said, code="malformed")
