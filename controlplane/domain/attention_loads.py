"""What needs a person in what engines tell of their load: every sign of health is good, and requests do not get on."""

from __future__ import annotations

from collections.abc import Iterator

from .attention import Concern, Harm, counted, sentence
from .attention_seen import InstanceSeen
from .engine_health import State
from .engine_queues import HELD_UP, queued

HELD_UP_SECONDS = 60.0


def standing_still(one: InstanceSeen, now: float) -> Iterator[Concern]:
    """Its /health is answered by those that go on: nobody else sees it."""
    engine = one.engine
    if engine is None or not (still := engine.load.get("still", 0)) or not _is_well(one):
        return
    dp, others = engine.load.get("still_dp", 0), still - 1
    do = f"and {counted(others, 'other')} compute" if others else "computes"
    yield Concern(
        harm=Harm.PART,
        state="silent",
        name=f"DP group {dp} of {one.name}",
        at=one.at,
        what=f"{do} no more, while the others of its engine do",
        why=sentence(STILL, "It is sent work all the same, and what is sent there waits"),
        next=f"Look in the engine's log at DP rank {dp}; drain it, or start the engine again",
        step="Show facts",
        to=one.at,
    )


STILL = "its scheduler renews its load no more, and /health is 200 as long as any DP rank answers"


def held_up(one: InstanceSeen, now: float) -> Iterator[Concern]:
    engine = one.engine
    since = engine.load.get(HELD_UP) if engine is not None and _is_well(one) else None
    if engine is None or since is None or now - since < HELD_UP_SECONDS:
        return
    count = queued(engine.load)
    yield Concern(
        harm=Harm.STUCK,
        state="stalled",
        name=f"Requests of {one.name}",
        at=one.at,
        what=f"do not get on: {counted(count, 'request')} {'waits' if count == 1 else 'wait'} {WAITS[one.role]}",
        why=sentence(f"{one.name} is well, and computes nothing: whoever is sent there waits"),
        next=LOOK[one.role],
        step="Show why",
        to=one.at,
        since=float(since),
        size=count,
    )


WAITS = {
    "prefill": "in its bootstrap queue for a decode",
    "decode": "for a KV cache or for memory",
    "seed": "in it",
}
LOOK = {
    "prefill": "See whether its decodes reach its bootstrap port and its ranks, and what their logs say of it",
    "decode": "See whether its prefills are well and reached from it, and whether its memory is held by others",
    "seed": "See what it waits for",
}


def _is_well(one: InstanceSeen) -> bool:
    return one.engine is not None and one.engine.state in (State.UP, State.LATE) and one.wanted
