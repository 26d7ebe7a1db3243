"""The tables. Each says who writes it; nobody else does."""

from .access import SignInLink
from .engine import EngineBody, EngineInfo
from .ledger import Event, LedgerHead
from .process import Lease, WorkerLease
from .registry import Instance, Launch, Rank
from .request import Request
from .rooms import RoomBinding, RoomCollision, TrafficFence

__all__ = [
    "EngineBody",
    "EngineInfo",
    "Event",
    "Instance",
    "Launch",
    "Lease",
    "LedgerHead",
    "Rank",
    "Request",
    "RoomBinding",
    "RoomCollision",
    "SignInLink",
    "TrafficFence",
    "WorkerLease",
]
