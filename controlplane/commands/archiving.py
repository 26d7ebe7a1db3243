"""Takes launches that ended out of the directory's tables into the archive, and forgets what has been there for long.

Rows of an ended launch never change again, so the bootstrap process, which wrote them, need not be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections, transaction
from django.db.models import Min

from controlplane.databases import FACTS
from controlplane.domain.archive import replaced_by
from controlplane.models import ArchivedLaunch, Instance, Launch, PurgedInstance, Rank
from controlplane.queries.kept import packed

from .keeping import before, keeping
from .trimming import Budget, count, delete, in_pieces

LAUNCHES_AT_ONCE = 20

Key = tuple[int, int]
"""Instance id and number of a launch."""

# The newest launch of an instance stays, unless it is retired: whoever is re-admitted is found there.
ENDED = """
FROM controlplane_launch l LEFT JOIN controlplane_instance i ON i.id = l.instance_id
WHERE l.ended_at <= %s{own} AND (i.id IS NULL OR i.intent = 'retired' OR l.number < (
 SELECT MAX(m.number) FROM controlplane_launch m WHERE m.instance_id = l.instance_id))"""
NEXT = f"SELECT l.instance_id, l.number {ENDED} ORDER BY l.ended_at, l.id LIMIT %s"
HOW_MANY = f"SELECT COUNT(*) {ENDED}"

DROP = (
    "DELETE FROM controlplane_rank WHERE instance_id = %s AND launch = %s",
    "DELETE FROM controlplane_launch WHERE instance_id = %s AND number = %s",
)


def archive_ended(*, now: float, budget: Budget | None = None) -> int:
    """Those that ended longer ago than they are kept where they were; how many."""
    ended_before = before(now, keeping().ended_launches)
    if ended_before is None:
        return 0
    return count("ended launches", _archive(ended_before, None, now, budget or Budget()), now=now)


def archive_older(ended_before: float, *, instance_id: int | None = None, now: float, budget: Budget) -> int:
    """The same for whoever does not want to wait: of one instance, or of all."""
    return _archive(ended_before, instance_id, now, budget)


def count_older(ended_before: float, *, instance_id: int | None = None) -> int:
    """How many that would move."""
    own, values = _narrowed(instance_id)
    with connections[FACTS].cursor() as cursor:
        cursor.execute(HOW_MANY.format(own=own), [ended_before, *values])
        return int(cursor.fetchone()[0])


def forget_archived(*, now: float, budget: Budget | None = None) -> int:
    """What has been in the archive for longer than it is kept, and the names of instances that were purged before."""
    ended_before = before(now, keeping().archive)
    if ended_before is None:
        return 0
    spent = budget or Budget()
    gone = delete(ArchivedLaunch._meta.db_table, "ended_at < %s", [ended_before], budget=spent)
    names = """purged_at < %s AND NOT EXISTS (
     SELECT 1 FROM controlplane_launch l WHERE l.instance_id = controlplane_purgedinstance.instance_id)"""
    delete(PurgedInstance._meta.db_table, names, [ended_before], budget=spent, key="instance_id")
    return count("archived launches", gone, now=now)


def _archive(ended_before: float, instance_id: int | None, now: float, budget: Budget) -> int:
    return in_pieces(lambda: _move(_ended(ended_before, instance_id), now), LAUNCHES_AT_ONCE, budget)


def _ended(ended_before: float, instance_id: int | None) -> list[Key]:
    own, values = _narrowed(instance_id)
    with connections[FACTS].cursor() as cursor:
        cursor.execute(NEXT.format(own=own), [ended_before, *values, LAUNCHES_AT_ONCE])
        return [(int(instance), int(number)) for instance, number in cursor.fetchall()]


def _narrowed(instance_id: int | None) -> tuple[str, list[int]]:
    return (" AND l.instance_id = %s", [instance_id]) if instance_id is not None else ("", [])


def _move(ended: Sequence[Key], now: float) -> int:
    """A transaction each: a launch is in one place or the other, for whoever looks."""
    names = _names({instance for instance, _ in ended})
    moved = 0
    for instance, number in ended:
        launch = Launch.objects.using(FACTS).filter(instance_id=instance, number=number).first()
        if launch is None or launch.ended_at is None:
            # Another round was here first.
            continue
        ranks = list(Rank.objects.using(FACTS).filter(instance_id=instance, launch=number))
        row = _archived(launch, ranks, names.get(instance, f"instance {instance}"), now)
        with transaction.atomic(using=FACTS):
            ArchivedLaunch.objects.using(FACTS).bulk_create([row], ignore_conflicts=True)
            with connections[FACTS].cursor() as cursor:
                for sql in DROP:
                    cursor.execute(sql, [instance, number])
        moved += 1
    return moved


def _archived(launch: Launch, ranks: list[Rank], name: str, now: float) -> ArchivedLaunch:
    assert launch.ended_at is not None
    copied = ("instance_id", "number", "state", "token", "dp", "cp", "tp", "pp", "facts", "opened_at", "completed_at")
    return ArchivedLaunch(
        **{field: getattr(launch, field) for field in copied},
        unchecked=launch.unchecked,
        ended_at=launch.ended_at,
        ended_reason=launch.ended_reason,
        instance=name,
        replaced_by=_successor(launch),
        first_seen_at=min((rank.first_at for rank in ranks), default=None),
        last_seen_at=max((rank.seen_at for rank in ranks), default=None),
        rank_count=len(ranks),
        registered=sum(rank.left_at is None for rank in ranks),
        ranks=packed([_rank(rank) for rank in ranks]),
        archived_at=now,
    )


def _successor(launch: Launch) -> int | None:
    """Who took its place: by its own word, or the next one that was ever whole, when it had been so itself."""
    said = replaced_by(launch.ended_reason)
    if said is not None or launch.completed_at is None:
        return said
    later = [
        model.objects.using(FACTS)
        .filter(instance_id=launch.instance_id, number__gt=launch.number, completed_at__isnull=False)
        .aggregate(first=Min("number"))["first"]
        for model in (Launch, ArchivedLaunch)
    ]
    return min((number for number in later if number is not None), default=None)


def _rank(rank: Rank) -> dict[str, Any]:
    said = ("ip", "port", "first_at", "seen_at", "left_at", "left_reason")
    return {"slot": [rank.dp, rank.cp, rank.tp, rank.pp], **{field: getattr(rank, field) for field in said}}


def _names(instances: set[int]) -> dict[int, str]:
    """Also of instances that were purged."""
    purged = PurgedInstance.objects.using(FACTS).filter(instance_id__in=instances)
    known = Instance.objects.using(FACTS).filter(pk__in=instances)
    return dict(purged.values_list("instance_id", "name")) | dict(known.values_list("pk", "name"))
