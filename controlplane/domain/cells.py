"""What one slot of a launch comes to, in a word: who sits there, whether it answers, what is wanted, who stays away."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .contact import Contact
from .intent import Intent
from .routable import Fact


class Cell(enum.StrEnum):
    """Words of a slot; those of intent and breakers are the words of these facts."""

    ROUTABLE = "routable"
    """Nothing known speaks against sending work to its DP group."""

    UP = "up"
    """It answers; its DP group takes no work for a reason that is not this rank."""

    FILLING = "filling"
    """It sits in a current launch that is not complete yet."""

    CANDIDATE = "candidate"
    REGISTERED = "registered"
    MISSING = "missing"
    """Nobody has ever registered here in this launch."""

    LEFT = "left"
    """Whoever sat here was evicted, or went on in another launch."""

    DOWN = "down"
    """Whoever sat here refused connections twice, and does not count any more."""

    REFUSED = "refused"
    SILENT = "silent"
    STRANGER = "stranger"
    UNREACHED = "unreached"
    UNPROBED = "unprobed"
    UNVERIFIED = "unverified"
    """It answered a bootstrap process before this one, and none since."""

    ENABLED = "enabled"
    CORDONED = "cordoned"
    DRAINING = "draining"
    DRAINED = "drained"
    RETIRED = "retired"
    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"
    """Of every gateway that could choose it."""

    OPEN_SOMEWHERE = "open_somewhere"


@dataclass(frozen=True, slots=True)
class Seat:
    """One slot: whether somebody counts there, and what probes saw of them, or of whoever left; None: nobody ever came."""

    here: bool
    contact: Contact | None
    probeable: bool = True
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Around:
    """What holds for a slot because of its launch and its DP group. `intent` and `breaker` are words of `Cell`."""

    candidate: bool = False
    complete: bool = True
    routable: bool = True
    intent: str = Cell.ENABLED
    breaker: str = Cell.CLOSED


EMPTY = Seat(False, None)

Rule = tuple[Cell, Callable[[Seat, Around], bool]]

ABSENT: Sequence[Rule] = (
    (Cell.MISSING, lambda seat, _: not seat.here and seat.contact is None),
    (Cell.DOWN, lambda seat, _: not seat.here and seat.contact is Contact.REFUSED),
    (Cell.LEFT, lambda seat, _: not seat.here),
)
UNWELL: Sequence[Rule] = (
    (Cell.REFUSED, lambda seat, _: seat.contact is Contact.REFUSED),
    (Cell.STRANGER, lambda seat, _: seat.contact is Contact.STRANGER),
    (Cell.SILENT, lambda seat, _: seat.contact is Contact.SILENT),
)
UNSURE: Sequence[Rule] = (
    (Cell.UNPROBED, lambda seat, _: not seat.probeable or seat.contact is Contact.UNPROBED),
    (Cell.UNREACHED, lambda seat, _: seat.contact is Contact.UNREACHED),
    (Cell.UNVERIFIED, lambda seat, _: not seat.verified),
)
VERDICT: Sequence[Rule] = (
    *ABSENT,
    *UNWELL,
    (Cell.CANDIDATE, lambda _, around: around.candidate),
    (Cell.RETIRED, lambda _, around: around.intent == Intent.RETIRED),
    (Cell.DRAINED, lambda _, around: around.intent == Cell.DRAINED),
    (Cell.DRAINING, lambda _, around: around.intent == Intent.DRAINING),
    (Cell.CORDONED, lambda _, around: around.intent == Intent.CORDONED),
    (Cell.OPEN, lambda _, around: around.breaker == Cell.OPEN),
    *UNSURE,
    (Cell.FILLING, lambda _, around: not around.complete),
    (Cell.UP, lambda _, around: not around.routable),
)
"""What is worst first: the first that holds is the word."""


def verdict(seat: Seat, around: Around) -> Cell:
    """All four facts in one word.

    >>> verdict(Seat(True, Contact.UP), Around()), verdict(EMPTY, Around())
    (<Cell.ROUTABLE: 'routable'>, <Cell.MISSING: 'missing'>)
    """
    return _first(VERDICT, seat, around) or Cell.ROUTABLE


def registration(seat: Seat, around: Around) -> Cell:
    return _first(ABSENT, seat, around) or (Cell.CANDIDATE if around.candidate else Cell.REGISTERED)


def health(seat: Seat, around: Around) -> Cell:
    return _first((*ABSENT, *UNWELL, *UNSURE), seat, around) or Cell.UP


def intent(seat: Seat, around: Around) -> Cell:
    return Cell(around.intent)


def breaker(seat: Seat, around: Around) -> Cell:
    return Cell(around.breaker)


SHOWS: Mapping[str, Callable[[Seat, Around], Cell]] = {
    "verdict": verdict,
    "registration": registration,
    "health": health,
    "intent": intent,
    "breaker": breaker,
}
"""What a grid can show of its slots."""


def against(seat: Seat, around: Around) -> frozenset[Fact]:
    """Which of the four facts say no.

    >>> sorted(against(Seat(True, Contact.SILENT), Around(intent="cordoned")))
    [<Fact.HEALTH: 'health'>, <Fact.INTENT: 'intent'>]
    """
    said = {
        Fact.REGISTRATION: not seat.here,
        Fact.HEALTH: seat.contact in (Contact.REFUSED, Contact.STRANGER, Contact.SILENT),
        Fact.INTENT: around.intent != Cell.ENABLED,
        Fact.BREAKER: around.breaker != Cell.CLOSED,
    }
    return frozenset(fact for fact, no in said.items() if no)


def _first(rules: Sequence[Rule], seat: Seat, around: Around) -> Cell | None:
    return next((cell for cell, holds in rules if holds(seat, around)), None)
