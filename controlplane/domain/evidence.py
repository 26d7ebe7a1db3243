"""How far the way of a room is proven, rung by rung: observed by us, reported by a worker, or inferred from other facts.

What nobody saw is not observed, never passed, and a conclusion stops at the first rung without proof. What follows from
other facts is shown, and proves nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .claims import (
    RUNGS,
    WOULD_SHOW,
    Asked,
    Claim,
    Conclusion,
    Displaced,
    Follower,
    Held,
    Knowledge,
    Ladder,
    Rung,
    Said,
    Standing,
    after_rung,
)
from .room_end import conclude
from .room_troubles import modulo

__all__ = [
    "RUNGS",
    "WOULD_SHOW",
    "Asked",
    "Claim",
    "Conclusion",
    "Displaced",
    "Follower",
    "Held",
    "Knowledge",
    "Ladder",
    "Rung",
    "Said",
    "Standing",
    "ladder",
    "modulo",
]

MOST_CLAIMS = 16
"""Of one rung; so many workers at most are quoted, those with trouble first."""

MEANS = {
    "registered": "{instance} has opened it",
    "resolved": "it was given the ranks of {instance}",
    "connected": "decode and {instance} are connected for it",
    "verified": "what came from {instance} is of this room",
    "consumed": "the KV of {instance} was taken",
}


def ladder(
    room: int,
    held: Sequence[Held],
    followers: Sequence[Follower] = (),
    *,
    said: Sequence[Said] = (),
    asked: Sequence[Asked] = (),
    now: float = 0.0,
) -> Ladder:
    """
    >>> here = Held("p", 1, 100.0, True, 3, 4, False, "")
    >>> found = ladder(9, [here])
    >>> found.proven, found.conclusion.head
    (1, 'Stops at registered.')
    >>> found = ladder(9, [here], said=[Said("resolved", "passed", "d/1", "p", 101.0)], now=109.0)
    >>> found.proven, found.conclusion.head, found.conclusion.sentence
    (2, 'Stops at resolved.', 'Resolved at 00:01:41 UTC; no connect seen within 5 s.')
    """
    last = last_words(said)
    living = [one for one in held if one.live]
    claims = {
        "registered": [claim for one in held for claim in _registered(room, one)],
        "resolved": [
            *map(_was_asked, asked),
            *([_would_resolve(one) for one in living] or [_by_modulo(room, one) for one in followers]),
        ],
    }
    rungs = tuple(
        Rung(
            name,
            _standing(name, held, living, last, asked),
            (*_reported(name, last), *claims.get(name, ())),
            WOULD_SHOW[name],
        )
        for name in RUNGS
    )
    return Ladder(rungs, conclude(room, held, living, followers, rungs=rungs, said=last, now=now))


def last_words(said: Sequence[Said]) -> list[Said]:
    """Of each worker the last word on each rung, the earliest first."""
    found: dict[tuple[str, str, str], Said] = {}
    for one in sorted(said, key=lambda one: one.at):
        found[one.rung, one.who, one.instance] = one
    return sorted(found.values(), key=lambda one: one.at)


def _standing(
    name: str, held: Sequence[Held], living: Sequence[Held], last: Sequence[Said], asked: Sequence[Asked]
) -> Standing:
    own = [one for one in last if one.rung == name]
    if any(not one.passed for one in own):
        return Standing.FAILED
    if own:
        return Standing.PASSED
    if name == "resolved" and any(one.answered_at is not None for one in asked):
        return Standing.PASSED
    if name != "registered" or not held:
        return Standing.NOT_OBSERVED
    # A binding that is over was there, and is no trouble, when the room went on meanwhile.
    went_on = any(one.passed for one in last)
    return Standing.PASSED if living or went_on else Standing.EXPIRED


def _reported(name: str, last: Sequence[Said]) -> Iterator[Claim]:
    own = [one for one in last if one.rung == name]
    for one in sorted(own, key=lambda one: (one.passed, one.at))[:MOST_CLAIMS]:
        took = after_rung(one.took)
        if one.passed:
            means = f"{MEANS[name].format(instance=one.instance)}{took}{f': {one.detail}' if one.detail else ''}"
        else:
            why = one.detail or "it did not say why"
            means = f"{one.result.replace('_', ' ')} at {one.instance}{took}: {why}"
        yield Claim(Knowledge.REPORTED, means, one.who, one.at, trouble=not one.passed)


def _registered(room: int, one: Held) -> Iterator[Claim]:
    ended = "" if one.live else ", and that binding has expired"
    yield Claim(Knowledge.OBSERVED, f"POST /register_dp_rank bound it to {one.where}{ended}", "bootstrap", one.bound_at)
    for taken in one.displaced:
        said = f"dp{taken.after} took it from dp{taken.before} of {one.instance} while that binding was alive"
        yield Claim(Knowledge.OBSERVED, said, "bootstrap", taken.at, trouble=one.live)
    for doubt in one.doubts:
        yield Claim(Knowledge.OBSERVED, doubt, "bootstrap", trouble=one.live)
    if one.groups is None:
        return
    computed = modulo(room, one.groups)
    same = computed == one.dp
    agrees = "the same DP group as bound" if same else f"{'not' if one.follows else 'other than'} dp{one.dp} as bound"
    why = "" if one.follows or same else "; this prefill does not follow the room, so decodes ask"
    yield Claim(
        Knowledge.INFERRED,
        f"room mod {one.groups} = {computed}: {agrees}{why}",
        "control plane",
        trouble=one.follows and not same,
    )


def _was_asked(one: Asked) -> Claim:
    if one.answered_at is None:
        said = f"{one.asked_by} asked for its DP rank in {one.instance}, and has not been told"
        return Claim(Knowledge.OBSERVED, said, "bootstrap", one.asked_at)
    waited = one.answered_at - one.asked_at
    after = f" after {waited:.3g} s" if waited >= 0.001 else ""
    said = f"{one.asked_by} asked for its DP rank in {one.instance}, and was told{after}"
    return Claim(Knowledge.OBSERVED, said, "bootstrap", one.answered_at)


def _would_resolve(one: Held) -> Claim:
    if one.because:
        said = f"a decode that asks {one.instance} now is not answered: {one.because}"
    else:
        said = f"a decode that asks {one.instance} now is told dp{one.dp} and the ranks of launch {one.launch}"
    return Claim(Knowledge.INFERRED, said, "control plane", trouble=bool(one.because))


def _by_modulo(room: int, one: Follower) -> Claim:
    goes = f"a decode of {one.instance} computes room mod {one.groups} = {modulo(room, one.groups)} and asks nobody"
    return Claim(Knowledge.INFERRED, f"{goes}{f'; {one.because}' if one.because else ''}", "control plane")
