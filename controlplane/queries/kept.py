"""How far back the past is kept: the first event, the states that were stored, and which revision was when."""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.databases import READER
from controlplane.domain import fleetstate
from controlplane.domain.errors import Refused
from controlplane.domain.fleetstate import State
from controlplane.domain.retention import Stored
from controlplane.ledger import tail
from controlplane.models import Event, StoredPart, StoredState

from .fleet import snapshot

CLOCKS_APART_SECONDS = 5.0
"""By so much the clocks of those who write events may differ."""


def first_event() -> tuple[int, float] | None:
    """The oldest event that is kept, and when it was written; None of an empty ledger."""
    return Event.objects.using(READER).order_by("revision").values_list("revision", "at").first()


def states() -> list[Stored]:
    """The oldest first."""
    rows = StoredState.objects.using(READER).order_by("revision").values_list("revision", "at")
    return [Stored(*row) for row in rows]


def beginning(revision: int, instance: str | None = None) -> tuple[int, State]:
    """The last state at or before this revision that the ledger can be followed from, and its own revision.

    Raises Refused (cursor_gone) when what came right after it is not kept any more.
    """
    # A stored state goes with its parts: both are read as of one moment.
    with snapshot():
        at = StoredState.objects.using(READER).filter(revision__lte=revision).order_by("-revision").first()
        base, found = (at.revision, _state(at.revision, instance)) if at is not None else (0, fleetstate.empty())
    check_kept(base, revision)
    return base, found


def check_kept(base: int, revision: int) -> None:
    """Refuse (cursor_gone) when events between `base`, exclusively, and `revision` went, or nobody knows what was then."""
    oldest = first_event()
    if oldest is None or oldest[0] <= base + 1 or base == revision > 0:
        return
    raise Refused(_gone(revision, *oldest), code="cursor_gone")


def check_moment(at: float) -> None:
    """Refuse (cursor_gone) a moment (epoch seconds) before the oldest event that is kept, unless it is the very first."""
    oldest = first_event()
    if oldest is not None and oldest[0] > 1 and at < oldest[1]:
        raise Refused(_gone(0, *oldest), code="cursor_gone")


def revision_at(at: float) -> int:
    """The last revision that was written at this moment or before; 0 when none that is kept was.

    Clocks of several writers are only nearly one: of events out of order the later revision counts.
    """
    with snapshot():
        oldest = first_event()
        if oldest is None:
            return 0
        # Revisions are gapless and nearly in the order of time: halving finds the place, and needs no index by time.
        low, high = oldest[0] - 1, tail.head().revision
        while low < high:
            middle = (low + high + 1) // 2
            if _written_at(middle) <= at + CLOCKS_APART_SECONDS:
                low = middle
            else:
                high = middle - 1
        found = Event.objects.using(READER).filter(revision__lte=low, at__lte=at).order_by("-revision")
        return int(found.values_list("revision", flat=True).first() or 0)


def _written_at(revision: int) -> float:
    found = Event.objects.using(READER).filter(revision__lte=revision).order_by("-revision")
    return float(found.values_list("at", flat=True)[0])


def _gone(revision: int, oldest: int, at: float) -> str:
    since = f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    what = f"what was at revision {revision}" if revision else "what was then"
    return f"the ledger is kept from revision {oldest} ({since}) on: {what} cannot be told any more"


def _state(revision: int, instance: str | None) -> State:
    parts = StoredPart.objects.using(READER).filter(revision=revision)
    if instance is not None:
        parts = parts.filter(instance__in=(instance, ""))
    found = dict(parts.values_list("instance", "compressed"))
    beside: Mapping[str, Any] = opened(found.pop("")) if "" in found else {}
    # A field that came with a later version of ours was not known yet.
    instances = {name: {**fleetstate.newcomer(), **opened(body)} for name, body in sorted(found.items())}
    return {**fleetstate.empty(), **beside, "instances": instances}


def packed(value: Any) -> bytes:
    return zlib.compress(msgspec.json.encode(value), 6)


def opened(body: bytes | memoryview) -> Any:
    return msgspec.json.decode(zlib.decompress(bytes(body)))
