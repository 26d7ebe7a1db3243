"""The tables. Each says who writes it; nobody else does."""

from .access import Attempt, IdempotentRequest, MachineToken, SignInLink
from .engine import EngineBody, EngineInfo
from .gateways import Breaker, Gateway, OpenRooms, OutcomeCount, Router, RouterMember
from .intent import ALL_GROUPS, Drain, GroupIntent
from .ledger import Event, LedgerHead
from .process import Lease, WorkerLease
from .registry import Instance, Launch, Rank
from .request import Request
from .rooms import RoomBinding, RoomCollision, TrafficFence
from .samples import Sample

__all__ = [
    "ALL_GROUPS",
    "Attempt",
    "Breaker",
    "Drain",
    "EngineBody",
    "EngineInfo",
    "Event",
    "Gateway",
    "GroupIntent",
    "IdempotentRequest",
    "Instance",
    "Launch",
    "Lease",
    "LedgerHead",
    "MachineToken",
    "OpenRooms",
    "OutcomeCount",
    "Rank",
    "Request",
    "RoomBinding",
    "RoomCollision",
    "Router",
    "RouterMember",
    "Sample",
    "SignInLink",
    "TrafficFence",
    "WorkerLease",
]
