"""Pages of the ledger: forwards from a position, as readers go on, or backwards from the newest, as people look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.ledger import position as positions
from controlplane.ledger import tail
from controlplane.ledger.position import Position
from controlplane.ledger.tail import EventRow
from controlplane.models import Event

from .events import TELL
from .fleet import snapshot


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events. `until` is the last revision that counts; empty fields do not narrow anything."""

    instance: str = ""
    kinds: tuple[str, ...] = ()
    actor: str = ""
    until: int | None = None
    before: int | None = None

    def filters(self) -> dict[str, Any]:
        given = {
            "instance": self.instance,
            "kind__in": self.kinds,
            "actor": self.actor,
            "revision__lte": self.until,
            "revision__lt": self.before,
        }
        return {key: value for key, value in given.items() if value not in ("", (), None)}


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events of the ledger whose head was `revision`. `next` is where to go on; `more`: there are more at once."""

    ledger_id: str
    revision: int
    items: list[EventRow]
    next: Position | None
    more: bool


def after(position: Position, wanted: Wanted, *, limit: int) -> EventPage:
    """What came after `position`, oldest first. Raises Refused (cursor_gone) when this ledger does not contain it."""
    with snapshot():
        head = tail.head()
        _check(position, head)
        rows = Event.objects.using(READER).filter(revision__gt=position.revision, **wanted.filters())
        found = list(map(row_of, rows.order_by("revision")[: limit + 1]))
        items, more = found[:limit], len(found) > limit
        # What did not match needs no second look.
        reached = positions.after(head.ledger_id, items[-1]) if more else position_of(head)
    return EventPage(head.ledger_id, head.revision, items, reached, more)


def newest(wanted: Wanted, *, limit: int) -> EventPage:
    """The newest first; `next` says before which one to go on, None when there is none before."""
    with snapshot():
        head = tail.head()
        rows = Event.objects.using(READER).filter(**wanted.filters())
        found = list(map(row_of, rows.order_by("-revision")[: limit + 1]))
    items, more = found[:limit], len(found) > limit
    return EventPage(
        head.ledger_id, head.revision, items, Position(head.ledger_id, items[-1].revision) if more else None, more
    )


def check(position: Position) -> None:
    """Refuse (cursor_gone) a position that this ledger does not contain, or from which it cannot go on."""
    with snapshot():
        _check(position, tail.head())


def head_position() -> Position:
    """The head of the ledger, with the mark of its last event."""
    with snapshot():
        return position_of(tail.head())


def position_of(cursor: tail.Cursor) -> Position:
    """A cursor with the mark of its event, so that a restored backup is told apart from the history it replaced."""
    at = _event(cursor.revision)
    return positions.after(cursor.ledger_id, at) if at else Position(cursor.ledger_id, cursor.revision)


def kinds_like(words: Sequence[str]) -> tuple[str, ...]:
    """Kinds by their names, or by the beginning of them: `rank` is `rank.registered`, `rank.left` and so on."""
    found: list[str] = []
    for word in words:
        matching = [kind for kind in TELL if kind == word or kind.startswith(f"{word.rstrip('.')}.")]
        if not matching:
            raise Refused(f"there is no kind of event {word!r}; there are {', '.join(TELL)}", code="malformed")
        found += matching
    return tuple(found)


def _check(position: Position, head: tail.Cursor) -> None:
    gone = position.ledger_id != head.ledger_id or position.revision > head.revision
    if not gone:
        at = _event(position.revision)
        gone = at is not None and not position.agrees_with(positions.mark_of(at))
        # Compacted: what came next is not here any more.
        gone = gone or (position.revision < head.revision and _event(position.revision + 1) is None)
    if gone:
        raise Refused(
            f"{position} is not part of this ledger, which stands at {head.ledger_id}:{head.revision}; "
            "begin again with a snapshot",
            code="cursor_gone",
        )


def _event(revision: int) -> EventRow | None:
    row = Event.objects.using(READER).filter(revision=revision).first()
    return row_of(row) if row is not None else None


def row_of(event: Event) -> EventRow:
    data = msgspec.json.decode(event.data)
    return EventRow(event.revision, event.at, event.kind, event.instance, event.actor, event.reason, data)
