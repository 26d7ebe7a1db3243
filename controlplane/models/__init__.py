"""The tables. Each says who writes it; nobody else does."""

from .access import Attempt, IdempotentRequest, MachineToken, SignInLink
from .alarms import Alarm, AlarmDesk, AlarmNotice
from .archive import ArchivedLaunch, PurgedInstance, StoredPart, StoredState, Trimmed
from .engine import EngineBody, EngineInfo
from .evidence import ReportBatch, RoomLookup, RoomReport
from .gateways import Breaker, Gateway, OpenRooms, OutcomeCount, Router, RouterMember
from .health import EngineHealth, Suspicion
from .intent import ALL_GROUPS, Drain, GroupIntent
from .ledger import Event, LedgerHead
from .process import Lease, WorkerLease
from .registry import Instance, Launch, Rank
from .request import Request
from .rooms import RoomBinding, RoomCollision, RoomReuse, TrafficFence
from .rounds import TaskFailure, TaskRound
from .samples import Sample

__all__ = [
    "ALL_GROUPS",
    "Alarm",
    "AlarmDesk",
    "AlarmNotice",
    "ArchivedLaunch",
    "Attempt",
    "Breaker",
    "Drain",
    "EngineBody",
    "EngineHealth",
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
    "PurgedInstance",
    "Rank",
    "ReportBatch",
    "Request",
    "RoomBinding",
    "RoomCollision",
    "RoomLookup",
    "RoomReport",
    "RoomReuse",
    "Router",
    "RouterMember",
    "Sample",
    "SignInLink",
    "StoredPart",
    "StoredState",
    "Suspicion",
    "TaskFailure",
    "TaskRound",
    "TrafficFence",
    "Trimmed",
    "WorkerLease",
]
