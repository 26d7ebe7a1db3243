"""One look at the ledger for a reader that remembers where it stood: what is new, or that its past is not the past."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.db import connections, transaction

from controlplane.databases import READER

from . import position as positions
from . import tail
from .position import Position
from .tail import EventRow

BATCH = 1000
LATEST = 2048
"""How much of the past is loaded at the beginning, so that readers who were away for a moment can go on."""


@dataclass(frozen=True, slots=True)
class Found:
    """Events without a gap, oldest first, up to `head`. `anew`: they do not follow what was known. `more`: look again."""

    head: Position
    events: list[EventRow]
    anew: bool = False
    more: bool = False


class Looker:
    """Looks, on one thread's connection. Whatever it raises, the next look opens another connection."""

    def __init__(self) -> None:
        self._file: tuple[int, int] | None = None

    def look(self, known: Position | None) -> Found:
        """What came after `known`; with None, or when `known` is not part of this ledger, the latest events."""
        try:
            self._let_go_of_a_replaced_file()
            # One moment for head and events, or a backup restored in between would be taken for the next revision.
            with transaction.atomic(using=READER, savepoint=False):
                found = _following(known) if known is not None else None
                return found or _anew()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connections[READER].close()

    def _let_go_of_a_replaced_file(self) -> None:
        """A backup moved over the SQLite file is another file: an open connection would read the old one for ever."""
        connection = connections[READER]
        if connection.vendor != "sqlite":
            return
        stat = Path(connection.settings_dict["NAME"]).stat()
        file = (stat.st_dev, stat.st_ino)
        if self._file not in (None, file):
            connection.close()
        self._file = file


def _following(known: Position) -> Found | None:
    """What came after `known`, or None when this ledger does not contain it or what followed it."""
    now = tail.head()
    if now.ledger_id != known.ledger_id or now.revision < known.revision:
        return None
    # With the event at `known` itself: a restored backup may have passed that revision again with other events.
    events = tail.after(known.revision - 1, limit=BATCH + 1)
    at = events.pop(0) if events and events[0].revision == known.revision else None
    if at is not None and not known.agrees_with(positions.mark_of(at)):
        return None
    if now.revision > known.revision and (not events or events[0].revision != known.revision + 1):
        return None
    if not events:
        return Found(known, [])
    return Found(positions.after(now.ledger_id, events[-1]), events, more=events[-1].revision < now.revision)


def _anew() -> Found:
    now = tail.head()
    events = tail.latest(LATEST)
    mark = positions.mark_of(events[-1]) if events and events[-1].revision == now.revision else ""
    return Found(Position(now.ledger_id, now.revision, mark), _unbroken(events, now.revision), anew=True)


def _unbroken(events: list[EventRow], head: int) -> list[EventRow]:
    """The end of `events` that leads up to `head` without a gap."""
    first = len(events)
    while first and events[first - 1].revision == head - (len(events) - first):
        first -= 1
    return events[first:]
