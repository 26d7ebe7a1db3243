"""Answers about the clockwork."""

from __future__ import annotations

from rest_framework import serializers

from controlplane.domain.clockwork import Standing

from ..fields import Moment
from .base import Answer, Sentences

Chars, Int, Bool, Float = (
    serializers.CharField,
    serializers.IntegerField,
    serializers.BooleanField,
    serializers.FloatField,
)


class TaskAnswer(Answer):
    """A periodic task, its newest round, and the last one that ended."""

    task = Chars()
    does = Chars()
    standing = serializers.ChoiceField([str(word) for word in Standing])
    sentence = Chars()
    every_seconds = Float()
    within_seconds = Float(help_text="A round that is not over after so long is given up; 0: none has begun.")
    round = Int(help_text="How many were begun.")
    running = Bool()
    began_at = Moment(allow_null=True)
    ended_at = Moment(allow_null=True)
    outcome = Chars(allow_blank=True, help_text="Of the last that ended: ok, failed or lost.")
    took_seconds = Float(allow_null=True)
    error = Chars(allow_blank=True)
    ok_at = Moment(allow_null=True, help_text="When one last ended well.")
    failures = Int(help_text="In a row.")
    failing_since = Moment(allow_null=True)
    due_at = Moment(allow_null=True)
    overdue_seconds = Float()
    ran_by = Chars(allow_blank=True)
    sent_by = Chars(allow_blank=True)


class RunnerAnswer(Answer):
    """A worker or a beat, as the newest rounds tell."""

    kind = serializers.ChoiceField(["worker", "beat"])
    name = Chars()
    there = Bool(help_text="Whether it was at work within the last minute.")
    seen_at = Moment()
    tasks = Sentences()


class FailureAnswer(Answer):
    """Rounds of one task that failed alike, one after another."""

    task = Chars()
    outcome = Chars()
    error = Chars()
    ran_by = Chars()
    round = Int(source="number", help_text="The newest of them.")
    count = Int()
    since = Moment()
    at = Moment()


class ClockworkAnswer(Answer):
    """What is done because time passes, and who does it."""

    fine = Bool(help_text="Whether everything that should run all the time does.")
    tasks = TaskAnswer(many=True)
    runners = RunnerAnswer(many=True)
    failures = FailureAnswer(many=True, help_text="The newest first.")
