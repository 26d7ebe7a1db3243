"""What a page offers beside a row: the target that a button is about, and why it is off."""

from __future__ import annotations

from controlplane.domain.drain import Progress
from controlplane.domain.intent import Intent
from controlplane.domain.offers import Stand, why_not
from controlplane.models import ALL_GROUPS
from controlplane.queries.drains import DrainRow
from controlplane.queries.rows import InstanceRow, RankRow

from .targets import Target


def target_of(row: InstanceRow | DrainRow, group: int | None = None, rank: RankRow | None = None) -> Target:
    """An instance, a DP group of it, one of its ranks; or what a drain is about."""
    if isinstance(row, DrainRow):
        return Target(row.instance, ALL_GROUPS if row.group is None else row.group)
    if rank is not None:
        return Target(row.name, slot=rank.slot, launch=rank.launch)
    return Target(row.name, ALL_GROUPS if group is None else group)


def off(act: str, row: InstanceRow | DrainRow, group: int | None = None, rank: RankRow | None = None) -> str:
    """Why it cannot be asked for now; blank when it can. `act` is a name in `ACTS`."""
    if isinstance(row, DrainRow):
        return "it has ended" if row.ended else why_not(act, _of_drain(row))
    return why_not(act, _of_instance(row, group, rank))


def _of_instance(row: InstanceRow, group: int | None, rank: RankRow | None) -> Stand:
    group = rank.slot.dp if rank is not None and group is None else group
    own = next((one.intent for one in row.groups if one.group == group), Intent.ENABLED)
    drain = row.drain_of(group)
    launches = [launch for launch in (row.current, row.candidate) if launch is not None]
    sits = rank is None or rank.left_at is None
    return Stand(
        row.name,
        Intent(row.intent if group is None else own),
        retired=row.retired,
        drain=Progress(drain.progress) if drain is not None else None,
        registered=sum(launch.registered for launch in launches) if sits else 0,
        candidate=(row.candidate.registered, row.candidate.expected) if row.candidate is not None else None,
    )


def _of_drain(row: DrainRow) -> Stand:
    return Stand(row.what, Intent.DRAINING, drain=Progress(row.progress))
