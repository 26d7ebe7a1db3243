"""What is known of one instance or DP group when it is weighed whether it can be sent work, and what comes of that. Values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .engine_health import State


class Fact(enum.StrEnum):
    REGISTRATION = "registration"
    HEALTH = "health"
    INTENT = "intent"
    BREAKER = "breaker"


@dataclass(frozen=True, slots=True)
class Registration:
    """Who is there. `expected`: ranks of this role register here; a decode asks, and never does."""

    expected: bool
    launch: int | None = None
    registered: int = 0
    size: int = 0
    missing: str = ""
    proven: bool = False
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What `/health` answers (200, 503, 404) and how well that is founded: ranks that answered a probe of this term."""

    status: int
    since: float | None = None
    reason: str = ""
    lost: bool = False
    answering: int = 0
    verified: int = 0
    probeable: int = 0


@dataclass(frozen=True, slots=True)
class Engine:
    """What its own HTTP server is like, in a word and a sentence. `old`: nobody asks it now."""

    state: State
    sentence: str
    since: float | None = None
    seen_at: float | None = None
    old: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """An intent, of the whole instance (`group` None) or of a DP group, and whose it is."""

    intent: str
    group: int | None = None
    actor: str = ""
    reason: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Breaker:
    gateway: str
    group: int | None
    state: str
    since: float
    reason: str = ""
    heard_at: float | None = None
    old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is known of one instance (`group` None) or one of its DP groups.

    `engine` is None where nobody knows where that could be asked. `selectors` are those who could choose it: gateways that
    have not left, routers that hold it. `watched_at` is when the bootstrap process was last heard from, `watched` whether it
    leads now.
    """

    name: str
    role: str
    registration: Registration
    health: Health
    group: int | None = None
    engine: Engine | None = None
    groups: tuple[int, ...] = ()
    wishes: tuple[Wish, ...] = ()
    breakers: tuple[Breaker, ...] = ()
    selectors: tuple[str, ...] = ()
    watched: bool = True
    watched_at: float | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """What one fact says. `since`: when it became so; `seen_at`: its last confirmation; `old`: nobody renews it now."""

    fact: Fact
    code: str
    sentence: str
    blocks: bool = False
    since: float | None = None
    seen_at: float | None = None
    old: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reasons` has one or more for each fact: those that block first, each part in the order of the facts."""

    routable: bool
    reasons: tuple[Reason, ...]

    @property
    def because(self) -> str:
        """The first reason against; empty when there is none."""
        return self.reasons[0].sentence if not self.routable else ""
