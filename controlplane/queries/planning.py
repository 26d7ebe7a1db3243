"""What a drain would mean before it begins: what remains, who must stop, who can tell that nothing is left."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.errors import Refused
from controlplane.models import ALL_GROUPS

from . import routable
from .fleet import instance, snapshot
from .rows import InstanceRow
from .standing import scope
from .witnesses import selectors
from .wording import counted, listing

COUNTED = {"prefill": "prefill instance", "decode": "decode instance", "seed": "seed instance"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The impact in numbers and sentences. `refused`: why a drain would be refused now, None when it would not."""

    instance: str
    group: int | None
    role: str
    intent: str
    version: int
    launch: int | None
    instances_now: int
    instances_after: int
    groups_now: int
    groups_after: int
    ranks_now: int
    ranks_after: int
    pairs_now: int
    pairs_after: int
    min_ready: int
    can_stop_admission: bool
    selectors: tuple[str, ...]
    witnesses: tuple[str, ...]
    refused: str | None
    sentences: tuple[str, ...]

    @property
    def what(self) -> str:
        return self.instance if self.group is None else f"dp{self.group} of {self.instance}"


def plan(name: str, *, group: int = ALL_GROUPS, min_ready: int = 0, now: float) -> Plan:
    """Raises Refused (not_found), also for a DP group that nobody registered."""
    with snapshot():
        row, _ = instance(name, now=now)
        _check_group(row, group)
        before, after = routable.both(now=now, without=(name, group))
        chosen = selectors(name)
    own, left = routable.count(before, row.role), routable.count(after, row.role)
    pairs = [_pairs(rows) for rows in (before, after)]
    # A router knows instances, not DP groups: it cannot spare one.
    stops = chosen.known and (group == ALL_GROUPS or not any(router.present for router in chosen.routers))
    who = (
        *(f"gateway {gateway.name}" for gateway in chosen.gateways),
        *(f"router {router.name}" for router in chosen.routers),
    )
    witnesses = _witnesses(row, tuple(gateway.name for gateway in chosen.gateways), routers=bool(chosen.routers))
    refused = _refusal(row, group, left.instances, min_ready)
    return Plan(
        instance=name,
        group=scope(group),
        role=row.role,
        intent=row.intent_of(scope(group)),
        version=row.version,
        launch=row.current.number if row.current else None,
        instances_now=own.instances,
        instances_after=left.instances,
        groups_now=own.groups,
        groups_after=left.groups,
        ranks_now=own.ranks,
        ranks_after=left.ranks,
        pairs_now=pairs[0],
        pairs_after=pairs[1],
        min_ready=min_ready,
        can_stop_admission=stops,
        selectors=who,
        witnesses=witnesses,
        refused=refused,
        sentences=tuple(_sentences(row, own, left, pairs, who, witnesses, stops=stops, refused=refused)),
    )


def _check_group(row: InstanceRow, group: int) -> None:
    known = [launch.topology.dp for launch in (row.current, row.candidate) if launch is not None]
    if group != ALL_GROUPS and known and not 0 <= group < max(known):
        raise Refused(f"dp{group} does not exist in {row.name}: it has {max(known)} DP groups", code="not_found")
    if group != ALL_GROUPS and not known and row.role == "prefill":
        raise Refused(
            f"no rank of {row.name} is registered, so its DP groups are not known; name the whole instance",
            code="conflict",
        )


def _pairs(rows: tuple[routable.RoutableRow, ...]) -> int:
    return routable.count(rows, "prefill").instances * routable.count(rows, "decode").instances


def _witnesses(row: InstanceRow, gateways: tuple[str, ...], *, routers: bool) -> tuple[str, ...]:
    if row.engine_url:
        return ("the engine's own load",)
    if gateways and not routers:
        return tuple(f"open rooms of gateway {name}" for name in gateways)
    return ()


def _refusal(row: InstanceRow, group: int, remaining: int, min_ready: int) -> str | None:
    if row.retired:
        return f"{row.name} is retired"
    going_on = row.drain_of(scope(group))
    if going_on is not None:
        return f"it is draining already (drain {going_on.id}, {going_on.progress})"
    if remaining < min_ready:
        return f"{remaining} routable {COUNTED[row.role]}s would remain, and {min_ready} are wanted"
    return None


def _sentences(
    row: InstanceRow,
    own: routable.Counts,
    left: routable.Counts,
    pairs: list[int],
    who: tuple[str, ...],
    witnesses: tuple[str, ...],
    *,
    stops: bool,
    refused: str | None,
) -> list[str]:
    said = [f"It would be refused: {refused}."] if refused else []
    role = COUNTED[row.role]
    if own.instances == left.instances and own.groups == left.groups:
        said.append(f"Nothing that is routable now is taken away: {counted(own.instances, role)}, {pairs[0]} pairs.")
    else:
        said.append(
            f"Of {counted(own.instances, f'routable {role}')} with {counted(own.groups, 'DP group')}, {left.instances} with"
            f" {counted(left.groups, 'DP group')} remain; pairs of prefill and decode: {pairs[0]} → {pairs[1]}."
        )
        if pairs[0] and not pairs[1]:
            said.append("No pair remains: requests would be refused.")
    if not who:
        said.append("Admission cannot be stopped from here: no gateway or router that chooses workers is known.")
    elif stops:
        said.append(f"To stop first: {listing(who, limit=8)}.")
    else:
        said.append(f"Admission cannot be stopped for one DP group: {listing(who, limit=8)} choose whole instances.")
    if witnesses:
        said.append(f"That nothing is left would be told by: {listing(witnesses, limit=8)}.")
    else:
        said.append(
            "Nobody is known who can tell that nothing is left, unless its workers report: give the URL of its engine."
        )
    return said
