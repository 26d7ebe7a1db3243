"""What queries about the fleet return: frozen rows that know how to be read, but not how to be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.domain.topology import Slot, Topology

from .engine_health import EngineRow
from .standing import BreakerRow, GroupRow, OpenDrainRow
from .wording import address, listing, slot_name


@dataclass(frozen=True, slots=True)
class RankRow:
    """Who sits, or sat, in a slot of a launch. Times are epoch seconds; `left_at` is None while it counts.

    `verified`: probed by the bootstrap process that leads now, and not only by one before it.
    """

    launch: int
    topology: Topology
    slot: Slot
    ip: str
    port: int
    http_port: int | None
    contact: str
    greeted: bool
    verified: bool
    flags: tuple[str, ...]
    first_at: float
    seen_at: float
    left_at: float | None = None
    left_reason: str = ""

    @property
    def name(self) -> str:
        return slot_name(self.slot, self.topology)

    @property
    def address(self) -> str:
        return address(self.ip, self.port)


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A rank that asked for a slot whose owner answers."""

    slot: Slot
    ip: str
    port: int

    @property
    def address(self) -> str:
        return address(self.ip, self.port)


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """One launch and how far it got. `missing` holds the first 16 slots nobody sits in."""

    number: int
    state: str
    topology: Topology
    token: str | None
    facts: dict[str, Any]
    opened_at: float
    completed_at: float | None
    unchecked: bool
    ended_at: float | None
    ended_reason: str
    registered: int
    missing: tuple[Slot, ...] = ()
    claims: tuple[ClaimRow, ...] = ()

    @property
    def expected(self) -> int:
        return self.topology.size

    @property
    def full(self) -> bool:
        return self.registered >= self.expected

    @property
    def progress(self) -> str:
        return f"{self.registered}/{self.expected}"

    def missing_sentence(self, *, limit: int = 4) -> str:
        """`27/32, missing dp1 tp3 and 4 more`; only the numbers when nobody is missing."""
        if self.full:
            return self.progress
        names = [slot_name(slot, self.topology) for slot in self.missing]
        return f"{self.progress}, missing {listing(names, limit=limit, total=self.expected - self.registered)}"


@dataclass(frozen=True, slots=True)
class ObservationRow:
    """What an observed instance's own server is like: a word, a sentence, since when, and when it answered last.

    `registered`: ranks that a server which is not ready says it has. `said`: what its engine told of itself.
    """

    at: str
    state: str
    sentence: str
    since: float
    answered_at: float | None
    registered: int | None
    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """An instance, rolled up. `left` are ranks that left lately, the latest first; `flagged` and `left` hold 16 at most,
    and `flagged` nobody where the whole fleet is weighed; `flagged_count` counts them everywhere."""

    id: int
    name: str
    role: str
    intent: str
    own_port: int | None
    host_alias: str | None
    created_at: float
    retired_at: float | None
    current: LaunchRow | None = None
    candidate: LaunchRow | None = None
    debt_since: float | None = None
    debt_hold: bool = False
    health_reason: str = ""
    flagged: tuple[RankRow, ...] = ()
    flagged_count: int = 0
    left: tuple[RankRow, ...] = ()
    sessions: int = 0
    conflicts: int = 0
    version: int = 1
    engine_url: str = ""
    observed_url: str = ""
    observed_engine_info_url: str = ""
    observation: ObservationRow | None = None
    engine: EngineRow = field(default_factory=EngineRow)
    probe_seconds: float | None = None
    fail_after: int | None = None
    pass_after: int | None = None
    intent_actor: str = ""
    intent_reason: str = ""
    intent_at: float | None = None
    groups: tuple[GroupRow, ...] = ()
    drains: tuple[OpenDrainRow, ...] = ()
    breakers: tuple[BreakerRow, ...] = ()

    def intent_of(self, group: int | None) -> str:
        """The intent that holds for a DP group: that of the whole instance, unless this is enabled and the group's is not."""
        if self.intent != "enabled" or group is None:
            return self.intent
        return next((row.intent for row in self.groups if row.group == group), "enabled")

    def drain_of(self, group: int | None) -> OpenDrainRow | None:
        return next((drain for drain in self.drains if drain.group == group), None)

    @property
    def open_breakers(self) -> tuple[BreakerRow, ...]:
        return tuple(breaker for breaker in self.breakers if breaker.state != "closed")

    @property
    def retired(self) -> bool:
        return self.intent == "retired"

    @property
    def is_observed(self) -> bool:
        return bool(self.observed_url or self.observed_engine_info_url)

    @property
    def publishes_only(self) -> bool:
        """Weights, and no ranks that a request without a name could be about."""
        return self.current is None and self.candidate is None and (self.role == "seed" or self.sessions > 0)

    @property
    def knowledge(self) -> str:
        """Where what is known of it comes from: it was asked at the engine's own servers, or its ranks register here."""
        return "observed" if self.is_observed else "registered"

    @property
    def registered(self) -> int:
        return self.current.registered if self.current else 0

    @property
    def expected(self) -> int:
        return self.current.expected if self.current else 0

    @property
    def complete(self) -> bool:
        """Every slot filled and proven. While the debt holds, the launch owes its proof again."""
        current = self.current
        return current is not None and current.full and current.completed_at is not None and not self.debt_hold

    @property
    def health(self) -> int:
        """What `/health` answers."""
        if self.retired:
            return 404
        return 503 if self.debt_since is not None else 200

    @property
    def serving(self) -> bool:
        """Whether look-ups are answered with addresses."""
        return self.complete and self.health == 200

    @property
    def state(self) -> str:
        """One word for a table."""
        if self.retired:
            return "retired"
        if self.serving:
            return "serving" if self.intent == "enabled" else self.intent
        if self.current is None:
            return "empty"
        if self.complete:
            return "flushing"
        return "unproven" if self.current.full else "incomplete"


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """The bootstrap process that holds the lease, or held it last. `stamp` is its last renewal, 0 when it gave it back."""

    holder: str
    token: int
    stamp: float
    lease_seconds: float

    def leads(self, now: float) -> bool:
        # Twice the lease: the stamp was taken by another clock, perhaps.
        return self.stamp > 0 and now - self.stamp <= 2 * self.lease_seconds


@dataclass(frozen=True, slots=True)
class FleetRow:
    """All instances as of one revision of the ledger, and who answers for them."""

    ledger_id: str
    revision: int
    leader: LeaderRow
    instances: tuple[InstanceRow, ...] = field(default_factory=tuple)

    def named(self, name: str) -> InstanceRow | None:
        return next((instance for instance in self.instances if instance.name == name), None)

    @property
    def sharing(self) -> tuple[str, ...]:
        """Names of those that nothing but their name tells apart on the shared listener."""
        return tuple(
            i.name
            for i in self.instances
            if not (i.retired or i.own_port or i.role == "decode" or i.is_observed or i.publishes_only)
        )
