"""What is known when somebody asks why an instance does not work: plain values, put together by whoever reads the tables.

Times are epoch seconds; None where nobody looked. Sentences here have no age and no full stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .engine_health import State


@dataclass(frozen=True, slots=True)
class Leading:
    """The bootstrap process: whether one leads, who did last, and when it was heard from."""

    leads: bool
    holder: str = ""
    heard_at: float | None = None


@dataclass(frozen=True, slots=True)
class PortSeen:
    """Who holds the port that is asked for this instance's directory.

    `own`: a port that we are to listen on for it alone; `failed`: why we could not. `observed`: the word of the observer on
    the engine's own bootstrap server (domain.observing.State) at `observed_at_url`. `holder`: who answered at the engine's
    own port `held` (domain.port_holder), as the prober saw it.
    """

    own: int | None = None
    failed: str | None = None
    told_at: float | None = None
    observed: str = ""
    observed_sentence: str = ""
    observed_at: float | None = None
    observed_url: str = ""
    holder: str = ""
    held: str = ""
    held_at: float | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """A request that was refused: what was asked, by whom, the sentence it was told, and when."""

    what: str
    source: str
    sentence: str
    at: float


@dataclass(frozen=True, slots=True)
class Names:
    """Who could be meant in its stead. `sharing`: others that nothing but a name tells apart on the shared listener,
    the first of `total`;
    `nameless`: the newest request that named nobody and was refused for that; `twins`: others with the same address, and
    which address that is."""

    shares: bool = False
    sharing: tuple[str, ...] = ()
    nameless: Told | None = None
    twins: tuple[str, ...] = ()
    twin_of: str = ""
    total: int = 0


@dataclass(frozen=True, slots=True)
class Gone:
    """A rank that was there and does not count any more."""

    name: str
    address: str
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Seated:
    """A rank that counts, and what its last probe saw (domain.contact). `verified`: by the process that leads now."""

    name: str
    ip: str
    address: str
    contact: str
    verified: bool = True
    unprobed: bool = False


@dataclass(frozen=True, slots=True)
class Roster:
    """Who registered. `launch` None: nobody is there. `missing`: the first empty slots; `gone`: who was in one of them, or
    in the last launch; `refusals`: registrations of this instance that were refused since, the newest first."""

    launch: int | None = None
    registered: int = 0
    expected: int = 0
    proven: bool = False
    missing: tuple[str, ...] = ()
    gone: tuple[Gone, ...] = ()
    refusals: tuple[Told, ...] = ()
    seats: tuple[Seated, ...] = ()
    registered_at: float | None = None


@dataclass(frozen=True, slots=True)
class EngineSeen:
    """Its own HTTP server. `loads_at`: when it told its load last; `counts` what that was."""

    at: str
    state: State
    sentence: str
    asked_at: float | None = None
    old: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    loads_at: float | None = None

    @property
    def well(self) -> bool:
        return self.state is State.UP or (self.state is State.LATE and not self.old)


@dataclass(frozen=True, slots=True)
class Front:
    """Somebody who chooses workers: a gateway, or a router (`router:NAME`) that shall hold this instance.

    `present`, `healthy`: of a router: whether it lists the instance, and what it thinks of its health (None: it was not
    heard to say). `why`: why it does not list it, or cannot be asked. `breakers`: whether its breakers are known here.
    """

    name: str
    away: bool = False
    asked: bool = True
    seen_at: float | None = None
    why: str = ""
    present: bool | None = None
    healthy: bool | None = None
    breakers: bool = True

    @property
    def router(self) -> bool:
        return self.name.startswith("router:")

    @property
    def called(self) -> str:
        return f"router {self.name.removeprefix('router:')}" if self.router else f"gateway {self.name}"


@dataclass(frozen=True, slots=True)
class Shut:
    """A breaker that is not closed."""

    gateway: str
    state: str
    reason: str = ""
    group: int | None = None
    since: float | None = None
    heard_at: float | None = None
    old: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """All of it for one instance.

    `wished` and `wish`: what operators want, and whose wish that is; `groups`: what they want of single DP groups,
    `no_group`: that leaves none. `away`: why we keep work away from it ourselves, empty when we do not. `misfits`: partners
    that it cannot work with, with the reason; `fitting` and `unsure`: how many others it can, as far as is known, and of
    how many not enough is.
    """

    name: str
    role: str
    leading: Leading
    port: PortSeen = field(default_factory=PortSeen)
    names: Names = field(default_factory=Names)
    roster: Roster = field(default_factory=Roster)
    engine: EngineSeen | None = None
    wished: str = "enabled"
    wish: str = ""
    wished_at: float | None = None
    groups: str = ""
    no_group: bool = False
    health: int = 200
    health_reason: str = ""
    health_since: float | None = None
    away: str = ""
    fronts: tuple[Front, ...] = ()
    shut: tuple[Shut, ...] = ()
    misfits: tuple[str, ...] = ()
    fitting: int = 0
    unsure: int = 0
