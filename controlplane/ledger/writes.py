"""What one batch of the recorder stores: facts as final rows, then their events. Built without touching a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controlplane.domain import events as happened
from controlplane.domain.directory import Decision
from controlplane.domain.engines import EngineConflicted, EngineEvent, EnginePublished, EngineRetired
from controlplane.domain.launch import Row

Statement = tuple[str, Sequence[Any]]
EventRow = tuple[float, str, str, str, str, str]

INSERT_LAUNCH = """
INSERT INTO controlplane_launch
 (instance_id, number, state, token, dp, cp, tp, pp, facts, opened_at, unchecked, ended_reason, claims)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, '', '')"""
NEXT_LAUNCH = "UPDATE controlplane_instance SET next_launch = %s WHERE id = %s"
FILL_FACTS = "UPDATE controlplane_launch SET facts = %s WHERE instance_id = %s AND number = %s"
COMPLETE = "UPDATE controlplane_launch SET completed_at = %s WHERE instance_id = %s AND number = %s"
PROMOTE = """
UPDATE controlplane_launch SET state = 'current', unchecked = %s, completed_at = COALESCE(%s, completed_at)
WHERE instance_id = %s AND number = %s"""
STEP_BACK = "UPDATE controlplane_launch SET state = 'candidate' WHERE instance_id = %s AND number = %s"
END = """
UPDATE controlplane_launch SET state = %s, ended_at = %s, ended_reason = %s
WHERE instance_id = %s AND number = %s AND ended_at IS NULL"""
CLAIMS = "UPDATE controlplane_launch SET claims = %s WHERE instance_id = %s AND number = %s"
LATE = "UPDATE controlplane_instance SET late = %s WHERE id = %s"
HEALTH = "UPDATE controlplane_instance SET debt_since = %s, debt_hold = %s WHERE id = %s"
PUBLISH = """
INSERT INTO controlplane_engineinfo
 (instance_id, rank, epoch, session, digest, tensors, total_bytes, old_style, state, at, greeted, ended_reason)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, '')
ON CONFLICT (instance_id, rank, epoch) DO UPDATE SET digest = excluded.digest, tensors = excluded.tensors,
 total_bytes = excluded.total_bytes, state = excluded.state, at = excluded.at, old_style = excluded.old_style"""
RETIRE_ENGINE = """
UPDATE controlplane_engineinfo SET state = 'retired', ended_at = %s, ended_reason = %s
WHERE instance_id = %s AND rank = %s AND epoch = %s"""
MEET = (
    "UPDATE controlplane_engineinfo SET greeted = %s, contact = %s WHERE instance_id = %s AND rank = %s AND epoch = %s"
)
KEEP_BODY = """
INSERT INTO controlplane_enginebody (digest, compressed, size_bytes) VALUES (%s, %s, %s)
ON CONFLICT (digest) DO NOTHING"""
DROP_BODY = """
DELETE FROM controlplane_enginebody WHERE digest = %s AND NOT EXISTS (
 SELECT 1 FROM controlplane_engineinfo e WHERE e.digest = controlplane_enginebody.digest AND e.state <> 'retired')"""


@dataclass(slots=True)
class Writes:
    """Gathered in decision order. Rank rows overwrite each other, so the last state of each is written once."""

    term: int = 0
    ranks: dict[tuple[int, ...], tuple[Any, ...]] = field(default_factory=dict)
    leases: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    ordered: list[Statement] = field(default_factory=list)
    # After all others: what looks whether anybody still needs something.
    last: list[Statement] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ranks or self.leases or self.ordered or self.events)

    def add(
        self, instance: int, name: str, decision: Decision, now: float, *, actor: str = "", reason: str = ""
    ) -> None:
        """Everything a decision about a directory changes."""
        for launch, row in decision.seen:
            self._rank(instance, launch, row)
        for event in decision.events:
            self._directory_event(instance, event, now)
            self.note(name, event, now, actor=actor, reason=reason)
        for launch, claims in decision.claims:
            text = msgspec.json.encode(list(claims.values())).decode() if claims else ""
            self.ordered.append((CLAIMS, (text, instance, launch)))
        if decision.fence is not None:
            late = {"at": decision.fence.at, "puts": list(decision.fence.late.values())}
            text = msgspec.json.encode(late).decode() if late["puts"] else ""
            self.ordered.append((LATE, (text, instance)))

    def add_engine(self, instance: int, name: str, events: Sequence[EngineEvent], now: float) -> None:
        for event in events:
            entry = event.entry
            if isinstance(event, EngineRetired):
                self.ordered.append((RETIRE_ENGINE, (now, event.reason, instance, entry.rank, entry.epoch)))
                self.last.append((DROP_BODY, (entry.digest,)))
            elif isinstance(event, EnginePublished | EngineConflicted):
                state = "live" if isinstance(event, EnginePublished) else "conflict"
                values = (instance, entry.rank, entry.epoch, entry.session, entry.digest, entry.tensors)
                more = (entry.total_bytes, entry.old_style, state, entry.at, entry.greeted)
                self.ordered.append((PUBLISH, (*values, *more)))
            self.note(name, event, now)

    def note(self, name: str, event: happened.Event, now: float, *, actor: str = "", reason: str = "") -> None:
        self.note_plain(name, event.kind, event.data(), now, actor=actor, reason=reason)

    def note_plain(
        self, name: str, kind: str, data: dict[str, Any], now: float, *, actor: str = "", reason: str = ""
    ) -> None:
        self.events.append((now, kind, name, actor, reason, msgspec.json.encode(data).decode()))

    def _rank(self, instance: int, launch: int, row: Row, left_at: float | None = None, reason: str = "") -> None:
        self.ranks[(instance, launch, *row.slot)] = (
            instance,
            launch,
            *row.slot,
            row.ip,
            row.port,
            row.http_port,
            row.first_at,
            row.seen_at,
            row.again_at,
            row.contact.value,
            row.greeted,
            row.adopted,
            ",".join(row.flags),
            self.term if row.probed_at is not None else 0,
            left_at,
            reason,
        )

    def _directory_event(self, instance: int, event: happened.Event, now: float) -> None:
        match event:
            case happened.RankRegistered(launch, row):
                self._rank(instance, launch, row)
            case happened.RankProbed(launch, row):
                self._rank(instance, launch, row)
            case happened.RankLeft(launch, row, reason):
                self._rank(instance, launch, row, now, reason)
            case happened.LaunchOpened(launch, opened, role):
                facts = msgspec.json.encode(happened.facts_data(opened.facts)).decode()
                values = (instance, launch, role, opened.token, *opened.topology.axes(), facts, opened.opened_at, False)
                self.ordered.append((INSERT_LAUNCH, values))
                self.ordered.append((NEXT_LAUNCH, (launch + 1, instance)))
            case happened.LaunchFactsFilled(launch, facts):
                text = msgspec.json.encode(happened.facts_data(facts)).decode()
                self.ordered.append((FILL_FACTS, (text, instance, launch)))
            case happened.LaunchCompleted(launch):
                self.ordered.append((COMPLETE, (now, instance, launch)))
            case happened.LaunchPromoted(launch, replaced, complete, unchecked):
                if replaced is not None:
                    self.ordered.append((END, ("replaced", now, f"replaced by launch {launch}", instance, replaced)))
                self.ordered.append((PROMOTE, (unchecked, now if complete else None, instance, launch)))
            case happened.LaunchSteppedBack(launch):
                self.ordered.append((STEP_BACK, (instance, launch)))
            case happened.LaunchDropped(launch, reason):
                self.ordered.append((END, ("dropped", now, reason, instance, launch)))
            case happened.HealthTurned(_, _, since, hold):
                self.ordered.append((HEALTH, (since, hold, instance)))
