"""How far the way of a room is proven, rung by rung: observed by us, reported by a worker, or inferred from other facts.

What nobody saw is not observed, never passed, and a conclusion stops at the first rung without proof. What follows from
other facts is shown, and proves nothing by itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


class Knowledge(enum.StrEnum):
    OBSERVED = "observed"
    REPORTED = "reported"
    INFERRED = "inferred"
    NOT_OBSERVED = "not_observed"


class Standing(enum.StrEnum):
    """Of a rung: proven now, proven for a time that is over, or not observed."""

    PASSED = "passed"
    EXPIRED = "expired"
    NOT_OBSERVED = "not_observed"


@dataclass(frozen=True, slots=True)
class Displaced:
    """A binding that was alive when another DP rank took the room."""

    before: int
    after: int
    at: float


@dataclass(frozen=True, slots=True)
class Held:
    """The last binding of the room in one instance, and what is known of that instance now.

    `bound_at` follows from the expiry and the time to live as it is set now. `groups` is None when nothing is registered.
    `because`: why look-ups are not answered; empty when they are.
    """

    instance: str
    dp: int
    bound_at: float
    live: bool
    launch: int | None
    groups: int | None
    follows: bool
    because: str
    displaced: tuple[Displaced, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.instance} dp{self.dp}"


@dataclass(frozen=True, slots=True)
class Follower:
    """A prefill whose DP group is the room modulo its DP size, so that nobody needs to bind the room."""

    instance: str
    groups: int
    because: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of evidence; `trouble` marks what the conclusion rests on."""

    knowledge: Knowledge
    sentence: str
    who: str
    at: float | None = None
    trouble: bool = False


@dataclass(frozen=True, slots=True)
class Rung:
    name: str
    standing: Standing
    claims: tuple[Claim, ...]
    would_show: str


@dataclass(frozen=True, slots=True)
class Conclusion:
    """`kind`: stops, trouble, expired or unbound. `next` says what a person can do; empty when nothing is to be done."""

    kind: str
    head: str
    sentence: str
    next: str = ""


@dataclass(frozen=True, slots=True)
class Ladder:
    rungs: tuple[Rung, ...]
    conclusion: Conclusion

    @property
    def proven(self) -> int:
        return sum(rung.standing is Standing.PASSED for rung in self.rungs)


WOULD_SHOW = {
    "registered": "that a prefill rank bound the room to its DP group",
    "resolved": "that a decode asked which DP group holds the room, and was given the addresses of its ranks",
    "connected": "which decode ranks connected to which ranks of the DP group",
    "verified": "that the room in the metadata is this one, and that the checksum agrees if it is on",
    "consumed": "that the decode took the KV pages and let them go",
}
RUNGS = tuple(WOULD_SHOW)

Trouble = tuple[str, str]
"""What is wrong, and what to do about it."""


def ladder(room: int, held: Sequence[Held], followers: Sequence[Follower] = ()) -> Ladder:
    """
    >>> here = Held("p", 1, 100.0, True, 3, 4, False, "")
    >>> found = ladder(9, [here])
    >>> found.proven, found.conclusion.head
    (1, 'Stops at registered.')
    """
    living = [one for one in held if one.live]
    standing = Standing.PASSED if living else Standing.EXPIRED if held else Standing.NOT_OBSERVED
    claims = {
        "registered": [claim for one in held for claim in _registered(room, one)],
        "resolved": [_would_resolve(one) for one in living] or [_by_modulo(room, one) for one in followers],
    }
    rungs = tuple(
        Rung(
            name,
            standing if name == "registered" else Standing.NOT_OBSERVED,
            tuple(claims.get(name, ())),
            WOULD_SHOW[name],
        )
        for name in RUNGS
    )
    return Ladder(rungs, _conclude(room, held, living, followers))


def modulo(room: int, groups: int) -> int:
    """The DP group that a decode computes when its prefill follows the room."""
    return room % groups


def _registered(room: int, one: Held) -> Iterator[Claim]:
    ended = "" if one.live else ", and that binding has expired"
    yield Claim(Knowledge.OBSERVED, f"POST /register_dp_rank bound it to {one.where}{ended}", "bootstrap", one.bound_at)
    for taken in one.displaced:
        said = f"dp{taken.after} took it from dp{taken.before} of {one.instance} while that binding was alive"
        yield Claim(Knowledge.OBSERVED, said, "bootstrap", taken.at, trouble=one.live)
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


def _would_resolve(one: Held) -> Claim:
    if one.because:
        said = f"a decode that asks {one.instance} now is not answered: {one.because}"
    else:
        said = f"a decode that asks {one.instance} now is told dp{one.dp} and the ranks of launch {one.launch}"
    return Claim(Knowledge.INFERRED, said, "control plane", trouble=bool(one.because))


def _by_modulo(room: int, one: Follower) -> Claim:
    goes = f"a decode of {one.instance} computes room mod {one.groups} = {modulo(room, one.groups)} and asks nobody"
    return Claim(Knowledge.INFERRED, f"{goes}{f'; {one.because}' if one.because else ''}", "control plane")


def _no_such_group(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.groups is not None and one.dp >= one.groups:
            yield (
                f"{one.where} does not exist: launch {one.launch} has {one.groups} DP groups",
                f"The rank that bound it belongs to another launch of {one.instance}, or counts its DP rank wrongly.",
            )


def _claimed_twice(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.displaced:
            last = one.displaced[-1]
            yield (
                f"{one.instance} bound it to dp{last.after} while its binding to dp{last.before} was alive: the last one"
                f" counts, and whoever asked before was told dp{last.before}",
                "Two requests used this number within its time to live. Whoever mints rooms must take a new one for each.",
            )


def _in_several(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    if len(living) > 1:
        yield (
            f"It is bound in {len(living)} instances at once, {' and '.join(one.where for one in living[:3])}, and each"
            " answers for itself",
            "One request has one prefill: look which of them its decode asks.",
        )


def _against_modulo(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.groups is not None and one.follows and modulo(room, one.groups) != one.dp:
            yield (
                f"{one.instance} bound it to dp{one.dp}, but says that it follows the room: a decode computes"
                f" dp{modulo(room, one.groups)} and does not ask",
                "Whoever pins a request to a DP rank must take a room whose modulo is that rank.",
            )


def _unanswered(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.because:
            yield f"{one.where} holds it, and look-ups are not answered: {one.because}", f"Look at {one.instance}."


TROUBLES: tuple[Callable[[int, Sequence[Held]], Iterator[Trouble]], ...] = (
    _no_such_group,
    _claimed_twice,
    _in_several,
    _against_modulo,
    _unanswered,
)
"""The worst first."""


def _conclude(room: int, held: Sequence[Held], living: Sequence[Held], followers: Sequence[Follower]) -> Conclusion:
    trouble = next((found for look in TROUBLES for found in look(room, living)), None)
    if trouble is not None:
        what, advice = trouble
        return Conclusion("trouble", "In doubt at registered.", f"{what}.", advice)
    if living:
        said = (
            f"{living[0].where} holds this room. Nobody has reported that a decode resolved it or connected, so nothing"
        )
        return Conclusion("stops", "Stops at registered.", f"{said} shows that the KV cache of this request arrived.")
    if held:
        said = f"{held[0].where} held this room; its binding is over, and a decode that asks now is told nothing."
        return Conclusion("expired", "Expired.", said)
    if followers:
        return Conclusion(
            "unbound",
            "Nobody bound this room.",
            "With prefills that follow the room nobody has to: its number says the DP group. Whether such a request was"
            " ever made is not observed.",
        )
    return Conclusion(
        "unbound",
        "Nobody bound this room,",
        "or its binding has expired and was trimmed. No prefill that is registered follows the room.",
    )
