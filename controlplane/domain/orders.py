"""What operators ask of a directory: evict, supersede; and what the door's pollers end: the flush."""

from __future__ import annotations

from .directory import Change, Decision, Directory
from .errors import Refused
from .events import LaunchDropped
from .launch import Address
from .settling import promote, settle
from .topology import Slot


def evict(directory: Directory, slot: Slot | None, *, why: str, now: float, launch: int | None = None) -> Decision:
    """Take one rank, or every rank, out of its launch, whether it answers or not; out of `launch` alone if it is given."""
    change = Change(directory, now)
    found = False
    for one in list(directory.launches()):
        slots = [s for s in ([slot] if slot is not None else list(one.rows)) if s in one.rows]
        if not slots or launch not in (None, one.number):
            continue
        found = True
        change.unseat(one, slots, why)
    if not found:
        what = f"{slot} is not" if slot is not None else "no rank is"
        where = directory.name if launch is None else f"launch {launch} of {directory.name}"
        raise Refused(f"{what} registered in {where}", code="not_found")
    current, candidate = change.current, change.candidate
    if slot is None:
        if candidate is not None and launch in (None, candidate.number):
            change.candidate = None
            change.events.append(LaunchDropped(candidate.number, why))
        if current is not None and launch in (None, current.number):
            change.current = None
            change.events.append(LaunchDropped(current.number, why))
            if current.served:
                change.owe(current.number, hold=False, reason=why)
    settle(change)
    return change.done()


def supersede(directory: Directory, *, now: float, launch: int | None = None) -> Decision:
    """Promote a complete candidate although ranks of the current launch still answer; no other than `launch`, if given."""
    current, candidate = directory.current, directory.candidate
    if current is None or candidate is None:
        raise Refused(f"{directory.name} has no candidate launch to put in charge", code="conflict")
    if launch not in (None, candidate.number):
        raise Refused(
            f"the candidate of {directory.name} is launch {candidate.number} now, and not launch {launch}",
            code="conflict",
        )
    if not candidate.full:
        missing = ", ".join(str(slot) for slot in candidate.missing(4))
        raise Refused(f"launch {candidate.number} is not complete: {missing} not registered", code="conflict")
    change = Change(directory, now)
    promote(change, current, candidate)
    settle(change)
    return change.done()


def doubt(directory: Directory, address: Address, *, now: float) -> Decision:
    """A rank of another instance registered from this address: whoever answers there is not ours any more."""
    change = Change(directory, now)
    change.doubt(address)
    settle(change)
    return change.done()


def flushed(directory: Directory, *, now: float) -> Decision:
    """The decodes have all noticed: `/health` may be 200 again, unless the launch that served is still not whole."""
    change = Change(directory, now)
    if change.debt is not None and not change.debt.hold:
        current = change.current
        change.clear_debt(current.number if current else 0, "every decode that polled has dropped its cache")
    return change.done()
