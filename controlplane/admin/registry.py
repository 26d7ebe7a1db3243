"""Which page shows which table."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db.models import Model

from controlplane import models

from . import alarms, archive, engines, fleet, gateways, history, people
from .records import Record
from .site import FleetSite

RECORDS: Mapping[type[Model], type[Record]] = {
    models.Instance: fleet.InstanceAdmin,
    models.Launch: fleet.LaunchAdmin,
    models.GroupIntent: fleet.GroupIntentAdmin,
    models.Drain: fleet.DrainAdmin,
    models.Request: fleet.RequestAdmin,
    models.EngineHealth: engines.EngineHealthAdmin,
    models.Suspicion: engines.SuspicionAdmin,
    models.EngineInfo: engines.EngineInfoAdmin,
    models.EngineBody: engines.EngineBodyAdmin,
    models.RoomBinding: engines.RoomBindingAdmin,
    models.RoomCollision: engines.RoomCollisionAdmin,
    models.RoomReuse: engines.RoomReuseAdmin,
    models.RoomReport: engines.RoomReportAdmin,
    models.RoomLookup: engines.RoomLookupAdmin,
    models.ReportBatch: engines.ReportBatchAdmin,
    models.Sample: history.SampleAdmin,
    models.Gateway: gateways.GatewayAdmin,
    models.Breaker: gateways.BreakerAdmin,
    models.OpenRooms: gateways.OpenRoomsAdmin,
    models.OutcomeCount: gateways.OutcomeCountAdmin,
    models.Router: gateways.RouterAdmin,
    models.RouterMember: gateways.RouterMemberAdmin,
    models.Alarm: alarms.AlarmAdmin,
    models.AlarmNotice: alarms.AlarmNoticeAdmin,
    models.AlarmDesk: alarms.AlarmDeskAdmin,
    models.ArchivedLaunch: archive.ArchivedLaunchAdmin,
    models.PurgedInstance: archive.PurgedInstanceAdmin,
    models.StoredState: archive.StoredStateAdmin,
    models.StoredPart: archive.StoredPartAdmin,
    models.Trimmed: archive.TrimmedAdmin,
    models.Event: history.EventAdmin,
    models.Attempt: history.AttemptAdmin,
    LogEntry: history.LogEntryAdmin,
    models.LedgerHead: history.LedgerHeadAdmin,
    models.Lease: history.LeaseAdmin,
    models.WorkerLease: history.WorkerLeaseAdmin,
    models.TaskRound: history.TaskRoundAdmin,
    models.TaskFailure: history.TaskFailureAdmin,
    models.TrafficFence: history.TrafficFenceAdmin,
    models.MachineToken: people.MachineTokenAdmin,
    models.SignInLink: people.SignInLinkAdmin,
    models.IdempotentRequest: people.IdempotentRequestAdmin,
}
"""Rank is not among them: see `ranks`."""

site = FleetSite()
for model, record in RECORDS.items():
    site.register(model, record)
site.register(User, people.UserAdmin)
site.register(Group, people.GroupAdmin)
