"""Answers that explain: who can be sent work, and why an instance is or is not serving."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.domain.questions import Verdict

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


class QuestionAnswer(Answer):
    """One question that operators ask, and its answer. What nobody saw is `not_observed`."""

    key = Chars(help_text="Which question: `directory`, `port`, `registered`, …; of a room, the rung.")
    question = Chars()
    verdict = serializers.ChoiceField([str(one) for one in Verdict])
    code = Chars(help_text="What was found, in one word.")
    sentence = Chars()
    at = Moment(allow_null=True, help_text="When that was seen; null where nobody kept it.")
    old = Bool(help_text="Nobody renews it now.")
    next = Chars(allow_blank=True, help_text="What a person can do; empty when nothing is to be done.")
    follows = Chars(allow_blank=True, help_text="The key of an earlier no that explains this one.")


class OutcomeAnswer(Answer):
    """What the answers come to: the first no that does not follow from another."""

    code = Chars(help_text="That of the answer which decides; `well` when nothing that was seen speaks against it.")
    key = Chars(allow_blank=True)
    head = Chars()
    sentence = Chars()
    next = Chars(allow_blank=True)
    also = Sentences(help_text="Keys of further answers that say no and do not follow from it.")


class ExplanationAnswer(Answer):
    """Why an instance is, or is not, serving: the verdict first; then the questions in order, and their conclusion."""

    name = Chars()
    sentences = Sentences()
    conclusion = OutcomeAnswer()
    answers = QuestionAnswer(many=True)


Shape = Any
