"""Transfer-engine info: which session serves which rank's weights, with an epoch of its own per rank.

It arrives before the KV registration, once, without a retry, often from seeds that are no PD workers at all, so it
belongs to the instance, not to a launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from .contact import Contact
from .events import Event
from .launch import CONFIRM_AFTER


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """One published session. `digest` names the stored dictionary; bytes never come into the domain.

    `old_style` says that only `tp_rank` was sent, so another stage may mean the same key. `greeted`: it accepted a
    connection once, so a refusal means something. `answered`: it answered once as transfer engines do, so that another
    program at its port means something too.
    """

    rank: int
    session: str
    digest: str
    tensors: int
    total_bytes: int
    at: float
    old_style: bool = False
    epoch: int = 1
    contact: Contact = Contact.UNPROBED
    refused_at: float | None = None
    greeted: bool = False
    probeable: bool = True
    answered: bool = False

    @property
    def living(self) -> bool:
        """Answers, may yet prove to, or answered once and was not refused since: nobody takes its rank."""
        pending = self.contact is Contact.UNPROBED and self.probeable
        if self.contact is Contact.STRANGER:
            # One that never answered may be of a kind that we do not know.
            return not self.answered
        # Whoever takes connections may hang, or be too old for our question.
        there = self.contact in (Contact.UP, Contact.SILENT)
        return there or pending or (self.greeted and self.contact is not Contact.REFUSED)


@dataclass(frozen=True, slots=True)
class EngineTable:
    """`live` answers look-ups; `conflicts` are second claims of a rank whose session lives: kept, shown, not served."""

    live: Mapping[int, EngineEntry] = field(default_factory=dict)
    conflicts: Mapping[int, EngineEntry] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)

    def sessions(self) -> set[str]:
        return {e.session for e in self.live.values()} | {e.session for e in self.conflicts.values()}


@dataclass(frozen=True, slots=True)
class EngineEvent(Event):
    """Base of engine events; `launch` is always 0, since sessions belong to the instance."""

    entry: EngineEntry

    def data(self) -> dict[str, object]:
        e = self.entry
        return {
            "rank": e.rank,
            "session": e.session,
            "epoch": e.epoch,
            "digest": e.digest,
            "tensors": e.tensors,
            "total_bytes": e.total_bytes,
            "old_style": e.old_style,
        }


@dataclass(frozen=True, slots=True)
class EnginePublished(EngineEvent):
    kind: ClassVar[str] = "engine.published"


@dataclass(frozen=True, slots=True)
class EngineConflicted(EngineEvent):
    kind: ClassVar[str] = "engine.conflicted"


@dataclass(frozen=True, slots=True)
class EngineRetired(EngineEvent):
    kind: ClassVar[str] = "engine.retired"
    reason: str = ""

    def data(self) -> dict[str, object]:
        return {
            "rank": self.entry.rank,
            "session": self.entry.session,
            "epoch": self.entry.epoch,
            "reason": self.reason,
        }


EngineChange = tuple[EngineTable, list[EngineEvent]]


@dataclass(frozen=True, slots=True)
class SessionRound:
    """What a round of probes comes to: sessions to ask `again` after CONFIRM_AFTER, and entries of which something else is
    known than before, to be stored (`met`)."""

    table: EngineTable
    events: list[EngineEvent]
    again: set[str]
    met: list[EngineEntry]


def publish(table: EngineTable, entry: EngineEntry) -> EngineChange:
    """A session's dictionary for its rank. The same session replaces its own; another one opens a new epoch, unless
    the present session lives: then it is a conflict, whoever is right (two stages with one old-style key, a forgery)."""
    present = table.live.get(entry.rank)
    if present is not None and present.session == entry.session:
        if present.digest == entry.digest:
            return table, []
        kept = replace(entry, epoch=present.epoch, contact=present.contact, greeted=present.greeted)
        kept = replace(kept, answered=present.answered)
        return _make_live(table, kept)
    if present is not None and present.living:
        return _conflict(table, entry)
    events: list[EngineEvent] = []
    if present is not None:
        events.append(EngineRetired(0, present, f"session {entry.session} took its place"))
    table, published = _make_live(table, replace(entry, epoch=_next_epoch(table, entry.rank)))
    return table, events + published


def observe_sessions(table: EngineTable, verdicts: Mapping[str, Contact], now: float) -> SessionRound:
    """Apply probes of sessions. One that answered once and refuses twice is retired; a conflict takes the place of a
    session that is gone, or that nobody ever reached."""
    events: list[EngineEvent] = []
    again: set[str] = set()
    met: list[EngineEntry] = []
    live, conflicts = dict(table.live), dict(table.conflicts)
    for entries in (live, conflicts):
        for rank, before in list(entries.items()):
            contact = verdicts.get(before.session, Contact.UNPROBED)
            if contact is Contact.UNPROBED:
                continue
            entry = entries[rank] = _observed(before, contact, now)
            if (entry.greeted, entry.contact) != (before.greeted, before.contact):
                met.append(entry)
            if entry.refused_at is not None and entry.contact is not Contact.REFUSED:
                again.add(entry.session)
            elif entry.contact is Contact.REFUSED and (entry.greeted or entries is conflicts):
                del entries[rank]
                events.append(EngineRetired(0, before, f"session {before.session} refuses connections"))
    for rank, claim in list(conflicts.items()):
        holder = live.get(rank)
        if holder is not None and holder.living:
            continue
        if holder is not None:
            lost = "another program holds its port" if holder.contact is Contact.STRANGER else "it was never reached"
            events.append(EngineRetired(0, holder, f"{lost}, and session {claim.session} claims its rank"))
        live[rank] = conflicts.pop(rank)
        events.append(EnginePublished(0, claim))
    return SessionRound(EngineTable(live, conflicts, table.epochs), events, again, met)


def _observed(entry: EngineEntry, contact: Contact, now: float) -> EngineEntry:
    if contact is not Contact.REFUSED:
        greeted = entry.greeted or contact in (Contact.UP, Contact.SILENT, Contact.STRANGER)
        answered = entry.answered or contact is Contact.UP
        return replace(entry, contact=contact, refused_at=None, greeted=greeted, answered=answered)
    if entry.refused_at is None or now < entry.refused_at:
        return replace(entry, refused_at=now)
    return replace(entry, contact=contact) if now - entry.refused_at >= CONFIRM_AFTER else entry


def _conflict(table: EngineTable, entry: EngineEntry) -> EngineChange:
    known = table.conflicts.get(entry.rank)
    if known is not None and (known.session, known.digest) == (entry.session, entry.digest):
        return table, []
    kept = replace(entry, epoch=_next_epoch(table, entry.rank))
    over: list[EngineEvent] = [EngineRetired(0, known, f"session {entry.session} claimed after it")] if known else []
    conflicts = {**table.conflicts, entry.rank: kept}
    epochs = {**table.epochs, entry.rank: kept.epoch}
    return replace(table, conflicts=conflicts, epochs=epochs), [*over, EngineConflicted(0, kept)]


def retire_before(table: EngineTable, at: float, reason: str) -> EngineChange:
    """Sessions published before `at` end with the launch they came with."""
    old = [e for entries in (table.live, table.conflicts) for e in entries.values() if e.at < at]
    live = {r: e for r, e in table.live.items() if e.at >= at}
    conflicts = {r: e for r, e in table.conflicts.items() if e.at >= at}
    return EngineTable(live, conflicts, table.epochs), [EngineRetired(0, e, reason) for e in old]


def _make_live(table: EngineTable, entry: EngineEntry) -> EngineChange:
    conflicts = dict(table.conflicts)
    events: list[EngineEvent] = []
    claimed = conflicts.get(entry.rank)
    if claimed is not None and claimed.session == entry.session:
        del conflicts[entry.rank]
        events.append(EngineRetired(0, claimed, "its session serves the rank now"))
    live = {**table.live, entry.rank: entry}
    epochs = {**table.epochs, entry.rank: max(entry.epoch, table.epochs.get(entry.rank, 0))}
    return EngineTable(live, conflicts, epochs), [*events, EnginePublished(0, entry)]


def _next_epoch(table: EngineTable, rank: int) -> int:
    return table.epochs.get(rank, 0) + 1
