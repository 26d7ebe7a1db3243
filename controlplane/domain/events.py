"""What happened to a directory, in the past tense. Each event carries all that a reader needs to follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .launch import Address, Launch, Row
from .topology import SharedFacts, Slot


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events of an instance's directory; `launch` is its number within the instance."""

    kind: ClassVar[str] = ""
    launch: int

    def data(self) -> dict[str, Any]:
        return {"launch": self.launch}


@dataclass(frozen=True, slots=True)
class LaunchOpened(Event):
    kind: ClassVar[str] = "launch.opened"
    opened: Launch
    role: str

    def data(self) -> dict[str, Any]:
        return {
            "launch": self.launch,
            "role": self.role,
            "token": self.opened.token,
            "topology": list(self.opened.topology.axes()),
            "facts": facts_data(self.opened.facts),
            "at": self.opened.opened_at,
        }


@dataclass(frozen=True, slots=True)
class LaunchFactsFilled(Event):
    kind: ClassVar[str] = "launch.facts_filled"
    facts: SharedFacts

    def data(self) -> dict[str, Any]:
        return {"launch": self.launch, "facts": facts_data(self.facts)}


@dataclass(frozen=True, slots=True)
class RankRegistered(Event):
    kind: ClassVar[str] = "rank.registered"
    row: Row
    previous: Address | None = None

    def data(self) -> dict[str, Any]:
        return {
            "launch": self.launch,
            "slot": list(self.row.slot),
            "previous": f"{self.previous[0]}:{self.previous[1]}" if self.previous else None,
            **row_data(self.row),
        }


@dataclass(frozen=True, slots=True)
class RankLeft(Event):
    kind: ClassVar[str] = "rank.left"
    row: Row
    reason: str

    def data(self) -> dict[str, Any]:
        return {
            "launch": self.launch,
            "slot": list(self.row.slot),
            "ip": self.row.ip,
            "port": self.row.port,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class RankProbed(Event):
    """A verdict that differs from the last one; equal verdicts are no event."""

    kind: ClassVar[str] = "rank.probed"
    row: Row

    def data(self) -> dict[str, Any]:
        return {
            "launch": self.launch,
            "slot": list(self.row.slot),
            "contact": str(self.row.contact),
            "greeted": self.row.greeted,
        }


@dataclass(frozen=True, slots=True)
class RankClaimed(Event):
    """A rank with the launch's own token asked for a slot whose owner answers: kept, shown, not obeyed."""

    kind: ClassVar[str] = "rank.claimed"
    row: Row

    def data(self) -> dict[str, Any]:
        return {"launch": self.launch, "slot": list(self.row.slot), **row_data(self.row)}


@dataclass(frozen=True, slots=True)
class RankCameLate(Event):
    """A PUT of a launch that was just replaced, at an address that refuses: answered, not stored."""

    kind: ClassVar[str] = "rank.came_late"
    slot: Slot
    ip: str
    port: int

    def data(self) -> dict[str, Any]:
        return {"launch": self.launch, "slot": list(self.slot), "ip": self.ip, "port": self.port}


@dataclass(frozen=True, slots=True)
class LaunchCompleted(Event):
    kind: ClassVar[str] = "launch.completed"


@dataclass(frozen=True, slots=True)
class LaunchPromoted(Event):
    kind: ClassVar[str] = "launch.promoted"
    replaced: int | None
    complete: bool
    unchecked: bool

    def data(self) -> dict[str, Any]:
        return {
            "launch": self.launch,
            "replaced": self.replaced,
            "complete": self.complete,
            "unchecked": self.unchecked,
        }


@dataclass(frozen=True, slots=True)
class LaunchSteppedBack(Event):
    """An unfinished current launch became the candidate: a complete one took its place, and its ranks live."""

    kind: ClassVar[str] = "launch.stepped_back"


@dataclass(frozen=True, slots=True)
class LaunchDropped(Event):
    kind: ClassVar[str] = "launch.dropped"
    reason: str

    def data(self) -> dict[str, Any]:
        return {"launch": self.launch, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class HealthTurned(Event):
    """`/health` of the instance changed; `since` is when the 503 began (the flush counts from there)."""

    kind: ClassVar[str] = "health.turned"
    status: int
    since: float | None
    hold: bool
    reason: str

    def data(self) -> dict[str, Any]:
        return {
            "launch": self.launch,
            "status": self.status,
            "since": self.since,
            "hold": self.hold,
            "reason": self.reason,
        }


def row_data(row: Row) -> dict[str, Any]:
    return {
        "ip": row.ip,
        "port": row.port,
        "http_port": row.http_port,
        "first_at": row.first_at,
        "contact": str(row.contact),
        "greeted": row.greeted,
        "flags": list(row.flags),
        "adopted": row.adopted,
    }


def facts_data(facts: SharedFacts) -> dict[str, Any]:
    return {
        "page_size": facts.page_size,
        "kv_cache_dtype": facts.kv_cache_dtype,
        "kv_layout": facts.kv_layout,
        "dsv41_spec_layout": facts.dsv41_spec_layout,
        "load_balance_method": facts.load_balance_method,
        "enable_dsa_cache_layer_split": facts.enable_dsa_cache_layer_split,
        "enable_kv_cache_sharding": facts.enable_kv_cache_sharding,
        "decode_allocation_policy": facts.decode_allocation_policy,
    }
