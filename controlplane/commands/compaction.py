"""Stores the state of the fleet now and then, and lets the events before a stored state go when they are old."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connections, transaction
from django.db.models import Min

from controlplane.databases import FACTS, READER
from controlplane.domain import retention
from controlplane.domain.fleetstate import State
from controlplane.domain.retention import Stored
from controlplane.ledger.tail import head
from controlplane.models import Event, StoredPart, StoredState
from controlplane.queries import kept, state

from .keeping import keeping
from .trimming import CHUNK, Budget, count, delete, in_pieces

PARTS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Compacted:
    """`stored`: the revision whose state was stored in this round; `events` and `states` went."""

    stored: int | None = None
    events: int = 0
    states: int = 0


def compact(*, now: float, budget: Budget | None = None) -> Compacted:
    """One round. Two at once do the same twice, which is the same; one that dies is gone on with by the next."""
    spent = budget or Budget()
    keep = keeping().events
    stored = store_state(now=now) if _is_due(now, keep) else None
    before = retention.cut(kept.states(), now=now, keep_seconds=keep)
    if before is None:
        return Compacted(stored)
    # States first: what was told from an older one must not be told without its events.
    states = count("stored states", _drop_states(before, spent), now=now)
    events = count("events", _drop_events(before, spent), now=now)
    return Compacted(stored, events, states)


def store_state(*, now: float) -> int | None:
    """Store the fleet as it is at the head of the ledger. That revision; None when nothing has happened yet."""
    at, found = state.fleet_state()
    written = Event.objects.using(READER).filter(revision=at.revision).values_list("at", flat=True).first()
    if written is None:
        return None
    parts = [StoredPart(revision=at.revision, instance=name, compressed=body) for name, body in _parts(found)]
    for start in range(0, len(parts), PARTS_AT_ONCE):
        # A transaction each, so that other writers get their turn.
        StoredPart.objects.using(FACTS).bulk_create(parts[start : start + PARTS_AT_ONCE], ignore_conflicts=True)
    size = sum(len(part.compressed) for part in parts)
    # Last: a state that is there has all of its parts.
    said = {"at": written, "stored_at": now, "parts": len(parts), "size_bytes": size}
    StoredState.objects.using(FACTS).get_or_create(revision=at.revision, defaults=said)
    return at.revision


def _is_due(now: float, keep: float) -> bool:
    newest = StoredState.objects.using(READER).order_by("-revision").values_list("revision", "at").first()
    known = Stored(*newest) if newest is not None else None
    return retention.is_due(head=head().revision, newest=known, now=now, keep_seconds=keep)


def _parts(found: State) -> list[tuple[str, bytes]]:
    beside = {key: value for key, value in found.items() if key != "instances"}
    parts = [(name, kept.packed(instance)) for name, instance in found["instances"].items()]
    return [("", kept.packed(beside)), *parts]


def _drop_events(before: int, budget: Budget) -> int:
    """The oldest first, so that what is left has no gap."""

    def piece() -> int:
        oldest = Event.objects.using(FACTS).aggregate(oldest=Min("revision"))["oldest"]
        if oldest is None or oldest >= before:
            return 0
        with connections[FACTS].cursor() as cursor:
            sql = "DELETE FROM controlplane_event WHERE revision < %s"
            cursor.execute(sql, [min(before, oldest + CHUNK)])
            return int(cursor.rowcount)

    return in_pieces(piece, CHUNK, budget)


def _drop_states(before: int, budget: Budget) -> int:
    with transaction.atomic(using=FACTS):
        gone = StoredState.objects.using(FACTS).filter(revision__lt=before).delete()[0]
    # Also parts of a state that was never finished; of a younger one another round may be about to finish it.
    orphans = "revision < %s AND revision NOT IN (SELECT revision FROM controlplane_storedstate)"
    delete("controlplane_storedpart", orphans, [before], budget=budget)
    return gone
