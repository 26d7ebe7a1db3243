"""What needs a person in the launches of one instance: those that do not get on."""

from __future__ import annotations

from collections.abc import Iterator

from .attention import Concern, Harm, Place, counted, sentence
from .attention_seen import SETTLED_SECONDS, STALLED_SECONDS, InstanceSeen


def stalled(one: InstanceSeen, now: float) -> Iterator[Concern]:
    first = one.current if one.observed == "filling" else None
    for launch in (first, one.candidate):
        if launch is None or launch.full or launch.idle(now) < STALLED_SECONDS:
            continue
        absent = launch.size - launch.registered
        serves = launch is one.candidate and one.observed in ("up", "degraded") and one.current
        yield Concern(
            harm=Harm.STUCK,
            state="stalled",
            name=f"{one.name} launch {launch.number}",
            at=Place("launches", one.name),
            what=f"stopped filling at {launch.registered:,} of {launch.size:,}",
            why=sentence(
                f"missing {launch.missing}" if launch.missing else "",
                f"launch {one.current.number} serves meanwhile" if serves and one.current else "",
            ),
            next=f"Look at the start of the {counted(absent, 'missing rank')}",
            step="Show missing",
            to=Place("launches", one.name),
            since=launch.newest_at,
            size=absent,
        )


def unproven(one: InstanceSeen, now: float) -> Iterator[Concern]:
    launch = one.current
    if launch is None or one.observed != "unproven" or launch.idle(now) < SETTLED_SECONDS:
        return
    yield Concern(
        harm=Harm.STUCK,
        state="unproven",
        name=f"{one.name} launch {launch.number}",
        at=one.at,
        what=f"has all of its {launch.size:,} ranks, and probes do not prove it",
        why="Until one round of probes is through, look-ups are answered 503.",
        next="See which of its ranks have not answered",
        step="Show ranks",
        to=one.at,
        since=launch.newest_at,
        size=launch.size,
    )


def blocked(one: InstanceSeen, now: float) -> Iterator[Concern]:
    launch, serving = one.candidate, one.current
    if launch is None or serving is None or not launch.full or launch.idle(now) < SETTLED_SECONDS:
        return
    yield Concern(
        harm=Harm.STUCK,
        state="blocked",
        name=f"{one.name} launch {launch.number}",
        at=Place("launches", one.name),
        what=f"is whole, and waits for launch {serving.number} to end",
        why=f"It takes over once probes have proven it and no rank of launch {serving.number} answers that could be harmed.",
        next=f"Stop what is left of launch {serving.number}, or let launch {launch.number} supersede it; two engines need two"
        " names",
        step="Show launches",
        to=Place("launches", one.name),
        since=launch.newest_at,
        size=launch.size,
    )


def claimed(one: InstanceSeen, now: float) -> Iterator[Concern]:
    for launch in (one.current, one.candidate):
        if launch is not None and launch.claims:
            verb = "asks" if launch.claims == 1 else "ask"
            yield Concern(
                harm=Harm.DOUBT,
                state="conflict",
                name=f"{one.name} launch {launch.number}",
                at=Place("launches", one.name),
                what=f"is claimed twice: {counted(launch.claims, 'rank')} {verb} for a slot whose owner answers",
                why="Both send the token of the same launch, so one of them was started twice.",
                next="End the one that is not wanted; the slot goes to whoever stays",
                step="Show claims",
                to=Place("launches", one.name),
            )
