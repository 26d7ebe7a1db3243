"""Follow the ledger from a cursor, over restored backups and restarted databases, without a gap and without repeating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.errors import Refused
from controlplane.ledger.tail import Cursor, EventRow, after, first, head

BATCH = 500


@dataclass(frozen=True, slots=True)
class Polled:
    """New events, oldest first. `more`: ask again at once. `replaced`: this ledger is not the one followed so far."""

    events: list[EventRow]
    more: bool = False
    replaced: bool = False


def check_follows(revision: int, newest: int) -> None:
    """Refuse (cursor_gone) when the event right after this revision went because it was old."""
    oldest = first() if revision < newest else revision
    if oldest > revision + 1:
        raise Refused(
            f"the ledger is kept from revision {oldest} on: what came right after {revision} is gone; begin there, or read"
            " the fleet as it is",
            code="cursor_gone",
        )


class Follower:
    """Remembers how far it has read; `cursor` is None until the first poll of one that starts at the present."""

    def __init__(
        self, *, after: int | None = None, instance: str | None = None, kinds: Sequence[str] | None = None
    ) -> None:
        self._start = after
        self._instance = instance
        self._kinds = list(kinds) if kinds else None
        self.cursor: Cursor | None = None

    def poll(self) -> Polled:
        """What was committed since the last poll. Raises what the database raises; then nothing was skipped. Refuses
        (cursor_gone) to start where what comes next is not kept any more."""
        now = head()
        if self.cursor is None:
            start = now.revision if self._start is None else min(self._start, now.revision)
            check_follows(start, now.revision)
            self.cursor = Cursor(now.ledger_id, start)
        elif self.cursor.ledger_id != now.ledger_id or now.revision < self.cursor.revision:
            # A restored backup or a failover: what was read is not what is true now.
            self.cursor = now
            return Polled([], replaced=True)
        if now.revision == self.cursor.revision:
            return Polled([])
        events = after(self.cursor.revision, limit=BATCH, instance=self._instance, kinds=self._kinds)
        more = len(events) == BATCH
        last = events[-1].revision if events else 0
        # What did not match needs no second look.
        self.cursor = Cursor(now.ledger_id, last if more else max(last, now.revision))
        return Polled(events, more=more)
