"""Answers about alarms and what the webhook is told of them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.models.alarms import Alarm, AlarmNotice

from ..fields import Moment
from .base import Answer, page_of

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class AlarmAnswer(Answer):
    """Something that needs a person for long enough to be told."""

    id = Int()
    key = Chars(help_text="The same for the same thing in the same state; one of a key is open at a time.")
    status = serializers.ChoiceField(["open", "resolved"])
    severity = serializers.ChoiceField(Alarm.Severity.values)
    state = Chars()
    instance = Chars(allow_blank=True, help_text="Blank: it is not about one instance.")
    name = Chars()
    sentence = Chars()
    why = Chars(allow_blank=True)
    next = Chars(help_text="What to do.")
    runbook = Chars(help_text="The entry of `/alarms/runbooks/`.")
    count = Int(help_text="Of how many things.")
    since = Moment()
    raised_at = Moment()
    clear_since = Moment(allow_null=True, help_text="It is not so any more, and open until that lasts.")
    resolved_at = Moment(allow_null=True)
    returns = Int(help_text="How often it came back.")
    flapping = Bool()
    acknowledged_at = Moment(allow_null=True)
    acknowledged_by = Chars(allow_blank=True)
    acknowledged_reason = Chars(allow_blank=True)
    told = Bool(help_text="Whether the webhook was told of it.")


class AcknowledgedAlarmAnswer(Answer):
    alarm = Int()
    changed = Bool()
    sentence = Chars()


class AlarmNoticeAnswer(Answer):
    """One message to the webhook."""

    id = Chars(source="notice", help_text="What the receiver is given as `webhook-id`.")
    alarm = Int(help_text="0: a test.")
    kind = Chars()
    state = serializers.ChoiceField(AlarmNotice.State.values)
    made_at = Moment()
    due_at = Moment(help_text="When it is tried next, while it waits.")
    attempts = Int()
    status = Int(allow_null=True, help_text="Of HTTP, as it was answered last.")
    problem = Chars(allow_blank=True)
    took_seconds = serializers.FloatField(allow_null=True)
    ended_at = Moment(allow_null=True)


AlarmsAnswer: Any = page_of(AlarmAnswer, "AlarmPage")
AlarmNoticesAnswer: Any = page_of(AlarmNoticeAnswer, "AlarmNoticePage")
