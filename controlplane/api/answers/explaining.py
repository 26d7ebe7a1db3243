"""Answers that explain: who can be sent work, and why an instance is or is not serving."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ..fields import Group, Moment
from .base import Answer, Sentences

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class ReasonAnswer(Answer):
    """What one fact says; `blocks`: it is a reason against."""

    fact = serializers.ChoiceField(["registration", "health", "intent", "breaker"])
    code = Chars()
    sentence = Chars()
    blocks = Bool()
    since = Moment(allow_null=True)
    seen_at = Moment(allow_null=True)
    old = Bool(help_text="Nobody renews this verdict now; it stays, and is shown as old.")


class GroupVerdictAnswer(Answer):
    """One DP group."""

    dp = Group(source="group", read_only=True)
    registered = Int()
    size = Int()
    answering = Int()
    intent = Chars()
    routable = Bool(source="verdict.routable")
    because = Chars(source="verdict.because", allow_blank=True)
    reasons = ReasonAnswer(many=True, source="verdict.reasons")


class RoutableAnswer(Answer):
    """One instance: whether it can be sent work, and what each of the four facts says."""

    name = Chars()
    role = Chars()
    launch = Int(allow_null=True)
    intent = Chars(source="instance.intent")
    routable = Bool()
    because = Chars(source="verdict.because", allow_blank=True)
    reasons = ReasonAnswer(many=True, source="verdict.reasons")
    groups = GroupVerdictAnswer(many=True)


class CountsAnswer(Answer):
    instances = Int()
    groups = Int()
    ranks = Int()


class RoutablesAnswer(Answer):
    """Who can be sent work."""

    prefill = CountsAnswer()
    decode = CountsAnswer()
    pairs = Int()
    items = RoutableAnswer(many=True)
    next = Chars(allow_null=True)


class ExplanationAnswer(Answer):
    """Why an instance is, or is not, serving: the verdict first."""

    name = Chars()
    sentences = Sentences()


Shape = Any
