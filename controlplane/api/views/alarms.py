"""Alarms: what needs a person for long enough to be told, who looks after it, and what the webhook was told."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import OPERATE, READ
from controlplane.commands import alarms as commands
from controlplane.queries import alarms

from ..answers.alarms import (
    AcknowledgedAlarmAnswer,
    AlarmAnswer,
    AlarmNoticeAnswer,
    AlarmNoticesAnswer,
    AlarmsAnswer,
)
from ..bodies import Choice, Paged, Strict, Text
from ..pagination import opened, page
from ..view import View


class AlarmFilters(Paged):
    status = Choice(
        choices=alarms.STATUSES, required=False, help_text="Only those that are open, or those that are over."
    )
    severity = Choice(choices=alarms.SEVERITIES, required=False)
    instance = Text(required=False, max_length=100)


class NoticeFilters(Paged):
    state = Choice(choices=alarms.NOTICE_STATES, required=False)


class Why(Strict):
    reason = Text(max_length=2000, help_text="Who does what about it; the ledger keeps it.")


class Alarms(View):
    """Alarms."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": AlarmFilters}
    answers = {"GET": {200: AlarmsAnswer}}

    def get(self, request: Request) -> Response:
        """Alarms, the newest first"""
        instance, limit = self.query.get("instance"), self.query["limit"]
        self.permit(instance)
        found = alarms.listing(
            status=self.query.get("status"),
            severity=self.query.get("severity"),
            instance=instance,
            before=opened("alarm", self.query.get("cursor"), int),
            limit=limit + 1,
        )
        cut = page(found, order="alarm", key=lambda row: row.id, limit=limit)
        return self.say({"items": AlarmAnswer.all_of(cut.items), "next": cut.next})


class OneAlarm(View):
    """One alarm."""

    verbs = {"GET": READ}
    scope = "asked"
    answers = {"GET": {200: AlarmAnswer}}

    def get(self, request: Request, alarm: int) -> Response:
        """One alarm: what, why, and what to do next"""
        row = alarms.alarm(alarm)
        self.permit(row.instance or None)
        return self.say(AlarmAnswer.of(row))


class Acknowledge(View):
    """Acknowledge an alarm."""

    verbs = {"POST": OPERATE}
    scope = "asked"
    bodies = {"POST": Why}
    answers = {"POST": {200: AcknowledgedAlarmAnswer}}
    action = "alarm.acknowledge"

    def post(self, request: Request, alarm: int) -> Response:
        """Somebody looks after it; it stays open until its cause is gone"""
        self.permit(alarms.alarm(alarm).instance or None)
        done = commands.acknowledge(alarm, actor=self.who.name, reason=self.body["reason"], now=self.now)
        return self.say(AcknowledgedAlarmAnswer.of(done))


class Notices(View):
    """Messages to the webhook."""

    verbs = {"GET": READ}
    queries = {"GET": NoticeFilters}
    answers = {"GET": {200: AlarmNoticesAnswer}}

    def get(self, request: Request) -> Response:
        """What the webhook was told, the newest first, and what it did not take"""
        limit = self.query["limit"]
        found = alarms.notices(
            state=self.query.get("state"), before=opened("notice", self.query.get("cursor"), int), limit=limit + 1
        )
        cut = page(found, order="notice", key=lambda row: row.id, limit=limit)
        return self.say({"items": AlarmNoticeAnswer.all_of(cut.items), "next": cut.next})
