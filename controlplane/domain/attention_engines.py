"""What needs a person in engines' own HTTP servers: those that take no requests, and those that are in doubt."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .attention import Concern, Harm, Place, counted, sentence
from .attention_seen import InstanceSeen
from .engine_health import State

STARTING_SECONDS = 900.0
"""Large models load for many minutes: for so long nobody needs to know."""

BUSY_SECONDS = 60.0


def down(one: InstanceSeen, now: float) -> Iterator[Concern]:
    """Its ranks are there, or it is a decode, and whoever sends it a request gets no answer."""
    engine = one.engine
    if engine is None or not one.kept_back_by_engine or not one.wanted:
        return
    if engine.state is State.STARTING and now - (engine.since or now) < STARTING_SECONDS:
        return
    starting = engine.state is State.STARTING
    yield Concern(
        harm=Harm.STUCK if starting else Harm.DOWN,
        state=engine.state.value,
        name=one.name,
        at=one.at,
        what="does not get ready: its engine is still starting"
        if starting
        else "takes no requests: its engine does not",
        why=sentence(engine.sentence),
        next=NEXT[engine.state],
        step="Show facts",
        to=one.at,
        since=engine.since,
        size=one.current.size if one.current else 0,
    )


NEXT = {
    State.STARTING: "Read the log of the engine: it answers, and does not serve",
    State.DOWN: "See whether its process runs; once it answers again, it is sent work by itself",
    State.STRANGER: "Correct its engine URL, or end whoever has taken the address",
}


def doubtful(one: InstanceSeen, now: float) -> Iterator[Concern]:
    engine = one.engine
    if engine is None or engine.withheld_since is not None or not one.wanted:
        return
    busy = engine.state is State.LATE and engine.why == "busy" and now - (engine.since or now) >= BUSY_SECONDS
    if engine.state is not State.SILENT and not busy:
        return
    yield Concern(
        harm=Harm.DOUBT,
        state=engine.state.value,
        name=f"Engine of {one.name}",
        at=one.at,
        what="computes, and does not answer its /health well" if busy else "answers nothing any more",
        why=sentence(engine.sentence, "It is sent work all the same"),
        next="Send it no more long prompts" if busy else "See whether it hangs, or cannot be reached from here",
        step="Show facts",
        to=one.at,
        since=engine.since,
        size=one.current.size if one.current else 0,
    )


def withheld(seen: Collection[InstanceSeen]) -> Iterator[Concern]:
    """Most engines stopped answering together: nothing is held against them, and somebody must know."""
    own = [one for one in seen if one.engine is not None and one.engine.withheld_since is not None]
    if not own:
        return
    yield Concern(
        harm=Harm.DOUBT,
        state="in_doubt",
        name="Verdicts on engines",
        at=Place("events"),
        what=f"are paused: {counted(len(own), 'engine')} stopped answering together with most of the others",
        why="The fault is probably in the network of this control plane, so nothing is held against them.",
        next="See whether the hosts of the engines can be reached from here",
        step="Show the first",
        to=own[0].at,
        since=min(one.engine.withheld_since or 0.0 for one in own if one.engine is not None),
        size=len(own),
    )
