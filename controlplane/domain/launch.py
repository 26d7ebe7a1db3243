"""One launch of an instance: who sits where, whether it is whole, and what one probe does to a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

from .contact import Contact
from .topology import SharedFacts, Slot, Topology
from .values import value

JOIN_WINDOW = 120.0
"""Seconds within which a PUT keeps a launch open for others, and a repeated row may be adopted."""

CONFIRM_AFTER = 0.3
"""Seconds between the two refusals that make a verdict."""

PROOF_LASTS = 0.5
"""Seconds for which a proof counts as belonging to the probe round of a launch that has just become full."""

Address = tuple[str, int]

K = TypeVar("K")
V = TypeVar("V")


@value
class Row:
    """A rank as it registered, and what probes saw of it. Times are seconds since the epoch."""

    slot: Slot
    ip: str
    port: int
    http_port: int | None
    first_at: float
    seen_at: float
    again_at: float | None = None
    contact: Contact = Contact.UNPROBED
    greeted: bool = False
    probed_at: float | None = None
    refused_at: float | None = None
    flags: tuple[str, ...] = ()
    adopted: bool = False
    # Somebody registered from this very address as another rank since: whoever answers there may not be this one.
    # Kept in memory only; it decides nothing but who may stand in a complete launch's way.
    doubted: bool = False

    @property
    def address(self) -> Address:
        return (self.ip, self.port)

    @property
    def answers(self) -> bool:
        return self.contact is Contact.UP

    @property
    def probeable(self) -> bool:
        return "unprobed" not in self.flags

    @property
    def pending(self) -> bool:
        """Nobody has asked this address yet, but somebody will."""
        return self.contact is Contact.UNPROBED and self.probeable

    @property
    def living(self) -> bool:
        """Answers, or may yet prove to: what a newcomer may not displace on a guess."""
        return (self.answers or self.pending) and not self.doubted

    def seen(self, now: float, http_port: int | None) -> Row:
        """The row after the same PUT once more. Written out: this is the hot path of repeated registrations."""
        return Row(
            self.slot,
            self.ip,
            self.port,
            http_port,
            self.first_at,
            now,
            now,
            self.contact,
            self.greeted,
            self.probed_at,
            self.refused_at,
            self.flags,
            False,
        )

    def observed(self, contact: Contact, now: float) -> tuple[Row, bool]:
        """The row after one probe, and whether it has to leave.

        Only a refusal counts against a rank, and only the second one, CONFIRM_AFTER later. Time-outs
        (silent, unreached) and strangers change what is shown, never membership.
        """
        if contact is Contact.UNPROBED:
            return self, False
        if contact is not Contact.REFUSED:
            row = replace(self, contact=contact, probed_at=now, refused_at=None)
            return (replace(row, greeted=True, adopted=False) if contact is Contact.UP else row), False
        if self.refused_at is None or now < self.refused_at:
            # In the other case the clock was set back: of the time between, nothing is known.
            return replace(self, refused_at=now), False
        if now - self.refused_at < CONFIRM_AFTER:
            return self, False
        return replace(self, contact=contact, probed_at=now), True


@value
class Launch:
    """A generation. `served` says that it was complete once, so decodes may have cached it."""

    number: int
    token: str | None
    topology: Topology
    facts: SharedFacts
    rows: Mapping[Slot, Row]
    opened_at: float
    put_at: float
    full_at: float | None = None
    complete: bool = False
    served: bool = False
    unchecked: bool = False
    claims: Mapping[Slot, Row] = field(default_factory=dict)
    at: Mapping[Address, Slot] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        return len(self.rows) == self.topology.size

    @property
    def proven(self) -> bool:
        """Whether the one probe round that a full launch owes has happened, and nobody is under suspicion."""
        if self.full_at is None:
            return False
        since = self.full_at - PROOF_LASTS
        for row in self.rows.values():
            if row.refused_at is not None:
                return False
            if row.probeable and (row.probed_at is None or row.probed_at < since):
                return False
        return True

    @property
    def has_answering(self) -> bool:
        return any(row.answers for row in self.rows.values())

    @property
    def has_living(self) -> bool:
        return any(row.living for row in self.rows.values())

    def is_open(self, now: float) -> bool:
        """Whether an unmarked PUT that agrees may still belong to this launch."""
        return now - self.put_at <= JOIN_WINDOW or self.has_answering

    def agrees(self, topology: Topology, facts: SharedFacts) -> bool:
        return (self.topology is topology or self.topology == topology) and self.facts.disagreement(facts) is None

    def not_ahead_of(self, now: float) -> Launch:
        """The launch after the clock was set back: what lies ahead was a moment ago, or nothing could come after it."""
        if self.put_at <= now and (self.full_at is None or self.full_at <= now):
            return self
        return replace(
            self, put_at=min(self.put_at, now), full_at=None if self.full_at is None else min(self.full_at, now)
        )

    def missing(self, limit: int = 16) -> list[Slot]:
        return self.topology.missing(self.rows, limit)

    def with_row(
        self, row: Row, workspace: Workspace | None = None, *, now: float, facts: SharedFacts | None = None
    ) -> Launch:
        """The launch with `row` in its slot, whoever sat there before."""
        rows, at = own(self.rows, workspace), own(self.at, workspace)
        before = rows.get(row.slot)
        if before is not None and at.get(before.address) == row.slot:
            del at[before.address]
        rows[row.slot] = row
        at[row.address] = row.slot
        return Launch(
            self.number,
            self.token,
            self.topology,
            self.facts.filled_from(facts) if facts is not None else self.facts,
            rows,
            self.opened_at,
            now,
            now if len(rows) == self.topology.size else None,
            False,
            self.served,
            self.unchecked,
            self.claims,
            at,
        )

    def refreshed(self, row: Row, workspace: Workspace | None = None, *, put_at: float | None = None) -> Launch:
        """The same membership, with one row seen or probed again."""
        rows = own(self.rows, workspace)
        rows[row.slot] = row
        return Launch(
            self.number,
            self.token,
            self.topology,
            self.facts,
            rows,
            self.opened_at,
            self.put_at if put_at is None else put_at,
            self.full_at,
            self.complete,
            self.served,
            self.unchecked,
            self.claims,
            self.at,
        )

    def without(self, slots: Iterable[Slot], workspace: Workspace | None = None) -> Launch:
        rows, at = own(self.rows, workspace), own(self.at, workspace)
        for slot in slots:
            row = rows.pop(slot, None)
            if row is not None and at.get(row.address) == slot:
                del at[row.address]
        return replace(self, rows=rows, at=at, full_at=None, complete=False)


Workspace = dict[int, dict[Any, Any]]
"""Tables that one batch has copied for itself and may change in place: nobody sees a launch between the operations of
a batch, so a thousand registrations need one copy, not a thousand. Kept by identity, and alive while they are here."""


def own(table: Mapping[K, V], workspace: Workspace | None) -> dict[K, V]:
    """A table that may be changed: this batch's own, or a new copy of it."""
    if workspace is not None and id(table) in workspace:
        return table  # type: ignore[return-value]
    copy = dict(table)
    if workspace is not None:
        workspace[id(copy)] = copy
    return copy
