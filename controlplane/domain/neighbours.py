"""Ranks of one host are of one engine: what keeps two engines apart that begin under one name at the same moment.

Nothing on SGLang's wire says which engine a rank is of, so the first ranks of two engines may look like one launch until
both claim a slot. Only launches that nobody was served from are touched.
"""

from __future__ import annotations

from .directory import Change, Registration
from .events import LaunchOpened
from .launch import Launch, Row

MOST_RANKS = 1024
"""In larger launches nobody is looked for: each registration would cost a walk over all of them."""


def preferred(change: Change, put: Registration) -> tuple[Launch | None, Launch | None]:
    """The launches that a rank may join, the likelier first: the newer one, unless only the older has ranks of its host."""
    current, candidate = change.current, change.candidate
    if current is None or candidate is None or current.served or current.complete:
        return candidate, current
    if neighbours(current, put.ip) and not neighbours(candidate, put.ip):
        return current, candidate
    return candidate, current


def part(change: Change, put: Registration) -> Launch | None:
    """The launch of the newcomer's own engine, parted from one in which a living rank of another host has its slot.

    None when nothing says that there are two engines.
    """
    mixed = change.current
    if mixed is None or change.candidate is not None or mixed.served or mixed.complete or mixed.token is not None:
        return None
    holder = mixed.rows.get(put.slot)
    if holder is None or not holder.living or holder.ip == put.ip or not mixed.agrees(put.topology, put.facts):
        return None
    own = neighbours(mixed, put.ip)
    if not own:
        return None
    launch = Launch(change.next_number, None, put.topology, put.facts, {}, change.now, change.now)
    change.next_number += 1
    change.unseat(mixed, [row.slot for row in own], f"went on in launch {launch.number}, with the ranks of its host")
    change.candidate = launch
    change.events.append(LaunchOpened(launch.number, launch, "candidate"))
    for row in own:
        launch = change.seat(launch, row, mixed.facts)
    return launch


def neighbours(launch: Launch, ip: str) -> list[Row]:
    """Those of a launch that live on this host, as far as is known."""
    if len(launch.rows) > MOST_RANKS:
        return []
    return [row for row in launch.rows.values() if row.ip == ip and row.living]
