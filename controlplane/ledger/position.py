"""Where a reader of the ledger stands, as text that is handed out and taken back: `LEDGER:N` or `LEDGER:N:MARK`.

The mark tells event N from another event N: a restored backup keeps the ledger's id, and its head may have passed N
again by the time a reader comes back.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from controlplane.domain.errors import Refused

from .tail import Cursor, EventRow

_FORM = re.compile(r"([0-9A-Za-z-]{1,36}):([0-9]{1,18})(?::([0-9a-f]{8}))?")


@dataclass(frozen=True, slots=True)
class Position:
    """After `revision` of this ledger. Without a mark nobody can tell whether it is of the same history."""

    ledger_id: str
    revision: int
    mark: str = ""

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.ledger_id, self.revision)

    def agrees_with(self, mark: str) -> bool:
        """Whether the event at this revision may be the one that this position was taken at."""
        return not self.mark or not mark or self.mark == mark

    def __str__(self) -> str:
        """
        >>> str(Position("1f0c", 7)), str(Position("1f0c", 7, "00c0ffee"))
        ('1f0c:7', '1f0c:7:00c0ffee')
        """
        return ":".join(filter(None, [self.ledger_id, str(self.revision), self.mark]))


def read(text: str) -> Position:
    """The position that `text` says. Raises Refused (malformed)."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise Refused("a position in the ledger looks like LEDGER:N, as it was handed out", code="malformed")
    return Position(found[1], int(found[2]), found[3] or "")


def after(ledger_id: str, event: EventRow) -> Position:
    """The position behind `event`."""
    return Position(ledger_id, event.revision, mark_of(event))


def mark_of(event: EventRow) -> str:
    """Differs, as good as always, between two events that got the same revision in different histories."""
    return f"{zlib.crc32(f'{event.at!r} {event.kind} {event.instance}'.encode()):08x}"
