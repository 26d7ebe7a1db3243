"""One event with the state before and after it of what it touched, and who knows of it by now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from controlplane.domain import fleetstate
from controlplane.domain.errors import Refused
from controlplane.domain.fleetstate import State
from controlplane.ledger.position import mark_of
from controlplane.ledger.tail import Cursor, EventRow, head

from . import gateways, searching, state
from .fleet import snapshot

LONGEST = 20_000
"""Events about one instance that are read to tell what was before one of them."""

Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KnownBy:
    """A gateway that is there, and whether it has acknowledged a revision at or after the event."""

    gateway: str
    acknowledged: bool
    behind: int | None
    seen_at: float


@dataclass(frozen=True, slots=True)
class Turned:
    """`before`, `after`: what differs of the instance, or for an event about none, of gateways and routers; None: there
    was no such instance.

    `untold`: why nobody can say what was before; then both are None. `newer`: how many revisions came since.
    """

    event: EventRow
    before: Part | None
    after: Part | None
    untold: str
    newer: int
    known_by: tuple[KnownBy, ...]


def turned(revision: int) -> Turned:
    """Raises Refused (not_found)."""
    with snapshot():
        now = head()
        event = searching.event(revision)
        before, after, untold = _sides(now.ledger_id, revision, mark_of(event))
        known = tuple(
            KnownBy(row.name, row.has_acknowledged(Cursor(now.ledger_id, revision)), row.behind, row.seen_at)
            for row in gateways.listing()
        )
    return Turned(event, before, after, untold, now.revision - revision, known)


# What was, stays as it was: the mark tells it from the event of another history with the same number.
@lru_cache(maxsize=256)
def _sides(ledger_id: str, revision: int, mark: str) -> tuple[Part | None, Part | None, str]:
    event = searching.event(revision)
    try:
        before = state.as_of(revision - 1, event.instance, most=LONGEST)
        after = fleetstate.apply(before, event)
    except Refused as refusal:
        return None, None, refusal.sentence
    except (KeyError, TypeError, ValueError):
        # Another version of ours wrote an event on the way that this one cannot follow.
        return None, None, "an event before it cannot be followed by this version"
    old, new = _part(before, event), _part(after, event)
    if old is None and new is None:
        return None, None, f"no event before it says that {event.instance} was added"
    return _apart(old, new), _apart(new, old), ""


def _part(fleet: State, event: EventRow) -> Part | None:
    if event.instance:
        found: Part | None = fleet["instances"].get(event.instance)
        return found
    return {"gateways": fleet["gateways"], "routers": fleet["routers"]}


def _apart(one: Part | None, other: Part | None) -> Part | None:
    """What differs from the other, and nothing of what does not: an instance of 4,096 ranks is too large to be kept.

    >>> _apart({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 2, "d": 4}})
    {'b': {'d': 3}}
    """
    if one is None or other is None:
        return one
    found: dict[str, Any] = {}
    for key, value in one.items():
        if key in other and other[key] == value:
            continue
        known = other.get(key)
        both = isinstance(value, Mapping) and isinstance(known, Mapping)
        found[key] = _apart(value, known) if both else value
    return found


def fleet_then(revision: int, instance: str | None = None) -> State:
    """The fleet as it was right after this revision. Raises Refused as state.as_of() does."""
    try:
        return state.as_of(revision, instance)
    except (KeyError, TypeError, ValueError):
        said = f"an event before {revision} cannot be followed by this version of the control plane"
        raise Refused(said, code="conflict") from None
