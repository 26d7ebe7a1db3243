"""What a drain that is under way takes away: what can be sent work now, and what could be without it."""

from __future__ import annotations

from dataclasses import dataclass

from . import memo, routable
from .routable import RoutableRow


@dataclass(frozen=True, slots=True)
class Numbers:
    """Routable ranks and DP groups of the instance; DP groups and instances of its role, and pairs, in the fleet."""

    own_ranks: int
    own_groups: int
    groups: int
    instances: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Toll:
    """`row`: the instance as it is."""

    row: RoutableRow
    without: Numbers
    now: Numbers


def toll(name: str, *, group: int | None, now: float) -> Toll:
    """Of a drain of this DP group (None: the whole instance). Call it inside a snapshot. Raises Refused (not_found)."""
    here, lifted = routable.lifted(name, group=group, now=now)
    others = tuple(row for row in memo.weighed(now=now).rows if row.name != name)
    return Toll(here, _numbers(others, lifted), _numbers(others, here))


def _numbers(others: tuple[RoutableRow, ...], own: RoutableRow) -> Numbers:
    alone, together = routable.count([own], own.role), routable.count((*others, own), own.role)
    prefills, decodes = (routable.count((*others, own), role).instances for role in ("prefill", "decode"))
    return Numbers(alone.ranks, alone.groups, together.groups, together.instances, prefills * decodes)
