"""What is said of a room, as values: who knows it and how, which rung it is about, what it comes to."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass


class Knowledge(enum.StrEnum):
    OBSERVED = "observed"
    REPORTED = "reported"
    INFERRED = "inferred"
    NOT_OBSERVED = "not_observed"


class Standing(enum.StrEnum):
    """Of a rung: proven now, failed as somebody reports, proven for a time that is over, or not observed."""

    PASSED = "passed"
    FAILED = "failed"
    EXPIRED = "expired"
    NOT_OBSERVED = "not_observed"


PASSED = "passed"
"""The one result that proves a rung; every other word is a failure."""


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
    `because`: why look-ups are not answered; empty when they are. `doubts`: a sentence for each rank of its DP group that
    is gone or does not answer, since when.
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
    doubts: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.instance} dp{self.dp}"


@dataclass(frozen=True, slots=True)
class Follower:
    """A prefill whose DP group is the room modulo its DP size, so that nobody needs to bind the room.

    `doubts` are those of the ranks in that group; they are told for instances that somebody reports of.
    """

    instance: str
    groups: int
    because: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """A worker's word about one rung, at `at` by our clock; `instance` is the prefill. `took`: seconds since its rung before.
    `stale`: who had the address that it failed at, and where that rank is now; empty when nobody left it."""

    rung: str
    result: str
    who: str
    instance: str
    at: float
    detail: str = ""
    took: float | None = None
    stale: str = ""

    @property
    def passed(self) -> bool:
        return self.result == PASSED


@dataclass(frozen=True, slots=True)
class Asked:
    """What the bootstrap process saw: a host asked for the DP rank of the room, and when it was first told."""

    instance: str
    asked_at: float
    asked_by: str
    answered_at: float | None


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
    """`kind`: failed, trouble, stops, gaps, consumed, expired or unbound. `next`: what a person can do; empty when nothing."""

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


def after_rung(took: float | None) -> str:
    """How long after the rung before; nothing where the worker does not say.

    >>> after_rung(0.000393), after_rung(0.0544), after_rung(3.2), after_rung(None)
    (', 0.39 ms after the rung before', ', 54 ms after the rung before', ', 3.2 s after the rung before', '')
    """
    if took is None:
        return ""
    return f", {took * 1000:.2g} ms after the rung before" if took < 0.1 else f", {took:.3g} s after the rung before"


def clock(at: float) -> str:
    """
    >>> clock(36_131.9)
    '10:02:11 UTC'
    """
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%H:%M:%S} UTC"
