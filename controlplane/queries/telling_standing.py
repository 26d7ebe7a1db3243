"""What operators want of an instance, how its drains stand and which breakers are open, as sentences of its story."""

from __future__ import annotations

from .rows import InstanceRow
from .standing import BreakerRow, GroupRow, OpenDrainRow
from .wording import ago, counted, listing, span

NAMED = 6


def told(instance: InstanceRow, *, now: float) -> list[str]:
    """First what is wanted and whose wish it is, then how far that is, then who stays away on his own."""
    return [*_intents(instance, now), *_drains(instance, now), *_breakers(instance, now)]


def whose(actor: str, reason: str) -> str:
    """
    >>> whose("anna", "kernel update"), whose("anna", ""), whose("", "")
    (', by anna: kernel update', ', by anna', '')
    """
    by = f", by {actor}" if actor else ""
    return f"{by}: {reason}" if by and reason else by


def _intents(instance: InstanceRow, now: float) -> list[str]:
    said = []
    if instance.intent in ("cordoned", "draining"):
        since = f" for {span(now - instance.intent_at)}" if instance.intent_at is not None else ""
        by = whose(instance.intent_actor, instance.intent_reason) or ", by an operator"
        said.append(f"It has been {instance.intent}{since}{by}; look-ups are still answered for the rooms in flight.")
    said += [_group(group, now) for group in instance.groups[:NAMED]]
    if len(instance.groups) > NAMED:
        said.append(f"{counted(len(instance.groups) - NAMED, 'more DP group')} are not enabled; --json names them all.")
    return said


def _group(group: GroupRow, now: float) -> str:
    return (
        f"DP group {group.group} has been {group.intent} for {span(now - group.at)}{whose(group.actor, group.reason)}."
    )


def _drains(instance: InstanceRow, now: float) -> list[str]:
    said = [sentence for drain in instance.drains[:NAMED] for sentence in _drain(instance, drain, now)]
    wanted = [None] if instance.intent == "draining" else []
    draining = [*wanted, *(group.group for group in instance.groups if group.intent == "draining")]
    for group in draining[:NAMED]:
        if instance.drain_of(group) is None:
            what = "the instance" if group is None else f"DP group {group}"
            said.append(f"No drain of {what} is under way: it was ended by force, so it may still have had work.")
    return said


def _drain(instance: InstanceRow, drain: OpenDrainRow, now: float) -> list[str]:
    head = f"Drain {drain.id} of {drain.what}"
    if drain.progress == "drained":
        current = instance.current.number if instance.current else None
        if drain.launch == current:
            launch = f"launch {drain.launch}" if drain.launch is not None else "it, with no rank registered,"
            return [f"{head} is done: {launch} is safe to delete."]
        return [f"{head} was done for launch {drain.launch}, which is not the current one: it proves nothing of that."]
    due = ""
    if drain.deadline_at is not None:
        late = now - drain.deadline_at
        due = f", {span(late)} overdue" if late > 0 else f", due in {span(-late)}"
    begun = f"{head} is {drain.progress}, begun {ago(drain.started_at, now)}{due}"
    looked = (
        f" (looked at {ago(drain.checked_at, now)})"
        if drain.checked_at is not None
        else "; nobody has looked at it yet"
    )
    said = [f"{begun}{looked}.", *(f"It waits: {blocker}." for blocker in drain.blockers[:NAMED])]
    if len(drain.blockers) > NAMED:
        said.append(f"It waits for {counted(len(drain.blockers) - NAMED, 'more thing')}; --json names them all.")
    return said


def _breakers(instance: InstanceRow, now: float) -> list[str]:
    said = []
    for breaker in instance.open_breakers[:NAMED]:
        said.append(_breaker(breaker, now))
    if len(instance.open_breakers) > NAMED:
        others = {breaker.gateway for breaker in instance.open_breakers[NAMED:]}
        said.append(f"More breakers are open at {listing(sorted(others))}.")
    return said


def _breaker(breaker: BreakerRow, now: float) -> str:
    what = "" if breaker.group is None else f" for DP group {breaker.group}"
    state = "half open" if breaker.state == "half_open" else breaker.state
    why = f": {breaker.reason}" if breaker.reason else ""
    old = f" ({breaker.gateway} was last heard from {ago(breaker.heard_at, now)})" if breaker.is_old(now) else ""
    return f"The breaker of {breaker.gateway} has been {state}{what} for {span(now - breaker.since)}{why}{old}."
