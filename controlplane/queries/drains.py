"""Drains as rows, with what their witnesses last said, and whether what they drained may be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controlplane.databases import READER
from controlplane.domain.drain import Rooms, safe_to_delete
from controlplane.domain.errors import Refused
from controlplane.domain.obstacles import Obstacle, obstacle
from controlplane.domain.trail import Trail
from controlplane.models import Drain, GroupIntent, Instance

from . import journal
from .fleet import snapshot
from .planning import Plan, plan
from .standing import scope
from .witnesses import registered
from .wording import ago, span

__all__ = ["DrainRow", "Plan", "ReadingRow", "drain", "listing", "newest_of", "plan", "told"]

UNWATCHED_SECONDS = 10
"""The task looks every second or so: after this long without, somebody should see whether it runs."""


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """What one witness last said of a DP rank; `dp` None: of the whole instance; `open` None: it did not say."""

    kind: str
    source: str
    dp: int | None
    taken_at: float
    open: int | None
    counts: Mapping[str, int]

    @property
    def who(self) -> str:
        return "the engine" if self.kind == "engine" else f"{self.kind} {self.source}"

    @property
    def detail(self) -> str:
        """
        >>> ReadingRow("engine", "", 0, 0.0, 2, {"running": 2, "waiting": 0}).detail
        'running 2, waiting 0'
        """
        return ", ".join(f"{name} {count}" for name, count in self.counts.items())


@dataclass(frozen=True, slots=True)
class DrainRow:
    """One drain, under way or ended. `group` None: of the whole instance. Times are epoch seconds.

    `obstacles` say of each blocker what it is about; `rooms` and `trail` are as the last look found them.
    """

    id: int
    instance: str
    group: int | None
    launch: int | None
    current_launch: int | None
    progress: str
    actor: str
    reason: str
    started_at: float
    deadline_at: float | None
    min_ready: int
    cordon_revision: int
    blockers: tuple[str, ...]
    readings: tuple[ReadingRow, ...]
    engine_problem: str
    waiting_for: tuple[str, ...]
    stopped_at: float | None
    checked_at: float | None
    empty_at: float | None
    ended_at: float | None
    ended_reason: str
    # Its instance was retired with it, and still is.
    retired: bool = False
    role: str = ""
    # What is wanted of it now, which another drain or an uncordon may have changed since.
    intent: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    rooms: Rooms = field(default_factory=Rooms)
    trail: Trail = field(default_factory=Trail)

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def safe_to_delete(self) -> bool:
        # A drain that has ended says nothing of what was let in since, unless the instance is retired.
        standing = not self.ended or self.retired
        return standing and safe_to_delete(self.progress, self.launch, self.current_launch)

    @property
    def what(self) -> str:
        return self.instance if self.group is None else f"dp{self.group} of {self.instance}"

    def unwatched(self, now: float) -> bool:
        """Under way, and nobody has looked at it for too long."""
        return not self.ended and now - (self.checked_at or self.started_at) > UNWATCHED_SECONDS


def drain(id_: int) -> DrainRow:
    """Raises Refused (not_found)."""
    with snapshot():
        rows = _rows(Drain.objects.using(READER).filter(pk=id_))
    if not rows:
        raise Refused(f"there is no drain {id_}", code="not_found")
    return rows[0]


def listing(
    *, instance: str | None = None, ended: bool | None = None, before: int | None = None, limit: int = 100
) -> tuple[DrainRow, ...]:
    """The newest first. `ended` None: all of them; `before`: only those with a lower id."""
    found = Drain.objects.using(READER).order_by("-id")
    if instance is not None:
        found = found.filter(instance=instance)
    if ended is not None:
        found = found.filter(ended_at__isnull=not ended)
    if before is not None:
        found = found.filter(pk__lt=before)
    with snapshot():
        return _rows(found[:limit])


def newest_of(instance: str, group: int) -> DrainRow | None:
    """The drain that is under way, else the last one, of an instance (`group` -1) or of a DP group."""
    with snapshot():
        rows = _rows(Drain.objects.using(READER).filter(instance=instance, group=group).order_by("-id")[:1])
    return rows[0] if rows else None


def told(row: DrainRow, *, now: float) -> list[str]:
    """The story of one drain in sentences, the verdict first."""
    by = f"by {row.actor}" + (f": {row.reason}" if row.reason else "")
    said = [f"{row.what} is {verdict(row)} (drain {row.id}, begun {ago(row.started_at, now)} {by})."]
    if row.ended_at is not None:
        said.append(f"It ended {ago(row.ended_at, now)}: {row.ended_reason}.")
        return said
    if row.deadline_at is not None and row.progress != "drained":
        left = row.deadline_at - now
        said.append(f"Its deadline {f'is in {span(left)}' if left > 0 else f'was {ago(row.deadline_at, now)}'}.")
    said += [f"Waiting: {blocker}." for blocker in row.blockers]
    if row.engine_problem:
        said.append(f"The engine was asked: {row.engine_problem}.")
    busy = [reading for reading in row.readings if reading.open]
    for reading in busy[:8]:
        where = "" if reading.dp is None else f" on dp{reading.dp}"
        said.append(f"{reading.who}{where}: {reading.detail} ({ago(reading.taken_at, now)}).")
    if row.unwatched(now):
        when = "yet" if row.checked_at is None else f"for {span(now - row.checked_at)}"
        said.append(f"Nobody has looked at it {when}: is the Celery worker running?")
    return said


def verdict(row: DrainRow) -> str:
    """How far it is, as the end of a sentence that begins with what it is about."""
    if row.safe_to_delete and row.group is not None:
        return "drained: its ranks hold nothing, and the other DP groups go on"
    if row.safe_to_delete:
        launch = f"launch {row.launch}" if row.launch is not None else "it"
        return f"drained: {launch} may be deleted"
    if row.progress == "drained":
        return f"drained, but that was launch {row.launch}, which is not the current one"
    words = {
        "waiting": "draining",
        "empty": "empty, and not proven to stay so",
        "overdue": "draining and overdue",
        "forced": "not drained: its drain was ended by force",
        "cancelled": "not draining any more: its drain was cancelled",
    }
    return words[row.progress]


def _rows(found: Iterable[Drain]) -> tuple[DrainRow, ...]:
    rows = list(found)
    ids = {row.instance_id for row in rows}
    current = registered(ids)
    known = Instance.objects.using(READER).in_bulk(ids)
    retired = {id_: one.retired_at for id_, one in known.items() if one.intent == Instance.Intent.RETIRED}
    own = GroupIntent.objects.using(READER).filter(instance_id__in=ids)
    intents = {(id_, group): str(intent) for id_, group, intent in own.values_list("instance_id", "group", "intent")}
    return tuple(
        _row(
            row,
            current[row.instance_id].number if row.instance_id in current else None,
            known.get(row.instance_id),
            intents.get((row.instance_id, row.group), "enabled"),
            # By this retirement, not by one before it was added again.
            retired=row.ended_at is not None and row.ended_at == retired.get(row.instance_id),
        )
        for row in rows
    )


def _row(row: Drain, current: int | None, of: Instance | None, own_intent: str, *, retired: bool) -> DrainRow:
    seen: dict[str, Any] = msgspec.json.decode(row.seen)
    blockers = tuple(msgspec.json.decode(row.blockers))
    keys = seen.get("keys", ())
    return DrainRow(
        id=row.pk,
        instance=row.instance,
        group=scope(row.group),
        launch=row.launch,
        current_launch=current,
        progress=row.progress,
        actor=row.actor,
        reason=row.reason,
        started_at=row.started_at,
        deadline_at=row.deadline_at,
        min_ready=row.min_ready,
        cordon_revision=row.cordon_revision,
        blockers=blockers,
        readings=tuple(ReadingRow(**reading) for reading in seen.get("readings", ())),
        engine_problem=seen.get("engine_problem", ""),
        waiting_for=tuple(seen.get("waiting_for", ())),
        stopped_at=seen.get("stopped_at"),
        checked_at=row.checked_at,
        empty_at=row.empty_at,
        ended_at=row.ended_at,
        ended_reason=row.ended_reason,
        retired=retired,
        role=str(of.role) if of else "",
        intent="" if of is None else str(of.intent) if of.intent != Instance.Intent.ENABLED else own_intent,
        obstacles=tuple(map(obstacle, keys if len(keys) == len(blockers) else ("unknown",) * len(blockers), blockers)),
        rooms=journal.Position.read(seen.get("journal", {})).rooms,
        trail=Trail.read(seen.get("trail", {})),
    )
