"""Worker processes that send heartbeats, as rows: which slots each holds, until when its lease is, and who is late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from controlplane.databases import READER
from controlplane.domain.attention_tasks import LateWorkers
from controlplane.domain.topology import Slot, Topology

from .wording import ago, counted, listing, slot_ranges, span

MOST = 5000
NAMED = 4

COLUMNS = "w.worker, i.name, w.token, w.slots, w.seen_at, w.expires_at, w.late_since"
COUNTS = "COUNT(*) OVER (), COUNT(w.late_since) OVER (), MAX(w.seen_at) OVER ()"
HELD = "FROM controlplane_workerlease w JOIN controlplane_instance i ON i.id = w.instance_id"
LATE_FIRST = "WHERE i.name = %s ORDER BY w.late_since IS NULL, w.worker"
OF_INSTANCE = f"SELECT {COLUMNS} {HELD} {LATE_FIRST} LIMIT {MOST}"
IN_SHORT = f"SELECT {COLUMNS}, {COUNTS} {HELD} {LATE_FIRST} LIMIT {NAMED}"
LATE = f"""
SELECT {COLUMNS} {HELD} WHERE w.late_since IS NOT NULL AND i.intent <> 'retired' ORDER BY i.name, w.worker LIMIT {MOST}"""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker process. Its lease may be over by a moment before it is called late: that is decided by one process."""

    worker: str
    instance: str
    token: str | None
    slots: tuple[Slot, ...]
    seen_at: float
    expires_at: float
    late_since: float | None

    @property
    def late(self) -> bool:
        return self.late_since is not None

    @property
    def lease_seconds(self) -> float:
        return self.expires_at - self.seen_at

    def holds(self) -> str:
        return spoken(self.slots)

    def sentence(self, now: float) -> str:
        holds = f" ({self.holds()})" if self.slots else ""
        heard = f"was last heard from {ago(self.seen_at, now)}"
        if self.late:
            return f"Worker {self.worker}{holds} is late: it {heard}, and its lease is {span(self.lease_seconds)}."
        return f"Worker {self.worker}{holds} {heard}."

    def document(self, now: float) -> dict[str, Any]:
        """As the API says it, times in epoch seconds."""
        return {
            "worker": self.worker,
            "token": self.token,
            "slots": self.slots,
            "late": self.late,
            "sentence": self.sentence(now),
            "lease_seconds": self.lease_seconds,
            "seen_at": self.seen_at,
            "expires_at": self.expires_at,
            "late_since": self.late_since,
        }


def spoken(slots: Sequence[Slot]) -> str:
    """Slots in short, neighbours together, without the axes on which all of them are 0.

    >>> spoken([Slot(0, 0, 1, 0), Slot(0, 0, 2, 0)]), spoken([Slot(0, 0, 0, 1)])
    ('dp0 tp1–2', 'dp0 tp0 pp1')
    """
    used = Topology(1, 1 + any(slot.cp for slot in slots), 1, 1 + any(slot.pp for slot in slots))
    return listing([name for name, _ in slot_ranges(slots, used)], limit=NAMED)


def of_instance(name: str) -> tuple[WorkerRow, ...]:
    """Those of one instance, the late ones first, then by name."""
    return _read(OF_INSTANCE, [name])


def late() -> tuple[WorkerRow, ...]:
    """Who is late, of all instances that are not retired."""
    return _read(LATE, [])


def late_by_instance() -> tuple[LateWorkers, ...]:
    """The same, an instance at a time."""
    own: dict[str, list[WorkerRow]] = defaultdict(list)
    for row in late():
        own[row.instance].append(row)
    return tuple(
        LateWorkers(
            name,
            len(rows),
            tuple(f"{row.worker} ({row.holds()})" if row.slots else row.worker for row in rows[:NAMED]),
            min(row.late_since or 0.0 for row in rows),
        )
        for name, rows in own.items()
    )


@dataclass(frozen=True, slots=True)
class Beating:
    """Workers of one instance in short: how many, how many of them late, and the first of these."""

    count: int = 0
    late: int = 0
    heard_at: float | None = None
    named: tuple[WorkerRow, ...] = ()

    @property
    def late_since(self) -> float | None:
        return min((row.late_since for row in self.named if row.late_since is not None), default=None)


def beating(name: str) -> Beating:
    """One query, whatever the size of the instance."""
    with connections[READER].cursor() as cursor:
        cursor.execute(IN_SHORT, [name])
        found = cursor.fetchall()
    if not found:
        return Beating()
    *_, count, late_ones, heard_at = found[0]
    return Beating(count, late_ones, heard_at, tuple(row for row in (_row(*one[:7]) for one in found) if row.late))


def told(workers: Beating, *, now: float) -> list[str]:
    """Sentences for the story of an instance: who is late, and that this alone keeps nobody away."""
    if not workers.late:
        return []
    said = [row.sentence(now) for row in workers.named]
    if (more := workers.late - len(workers.named)) > 0:
        said.append(f"So {'is' if more == 1 else 'are'} {counted(more, 'more worker')}.")
    return [*said, "Whether ranks count is decided by probes, not by heartbeats."]


def _read(sql: str, values: list[str]) -> tuple[WorkerRow, ...]:
    with connections[READER].cursor() as cursor:
        cursor.execute(sql, values)
        return tuple(_row(*row) for row in cursor.fetchall())


def _row(worker: str, instance: str, token: str | None, slots: str, *times: Any) -> WorkerRow:
    held = tuple(Slot(*map(int, slot.split("."))) for slot in slots.split())
    return WorkerRow(worker, instance, token, held, *times)
