"""Answers about the way of a room. What nobody saw is `not_observed`, never `passed`."""

from __future__ import annotations

from rest_framework import serializers

from controlplane.domain.claims import RUNGS, Knowledge, Standing

from ..fields import Moment, Room
from .base import Answer, Sentences
from .explaining import QuestionAnswer

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField
KINDS = ["failed", "trouble", "stops", "gaps", "consumed", "expired", "unbound"]


class KeptEvidenceAnswer(Answer):
    """What was kept of a report."""

    kept = Int()
    left_out = Int(help_text="Of rooms that are not among the share that is kept, or more than there is room for.")
    unknown = Sentences(help_text="Instances that nobody knows here; what was said of them is not kept.")
    repeated = Bool(help_text="This batch had come before, and was not counted again.")


class RoomConclusionAnswer(Answer):
    """Where the way stops, in sentences."""

    kind = serializers.ChoiceField(KINDS)
    head = Chars()
    sentence = Chars()
    next = Chars(allow_blank=True, help_text="What a person can do; empty when nothing is to be done.")


class RoomClaimAnswer(Answer):
    """One line of evidence. `trouble`: the conclusion rests on it."""

    knowledge = serializers.ChoiceField([str(one) for one in Knowledge])
    sentence = Chars()
    who = Chars()
    at = Moment(allow_null=True)
    trouble = Bool()


class RoomRungAnswer(Answer):
    """One of five rungs."""

    name = serializers.ChoiceField(RUNGS)
    standing = serializers.ChoiceField([str(one) for one in Standing])
    would_show = Chars(help_text="What evidence of it would show.")
    claims = RoomClaimAnswer(many=True)


class RoomMomentAnswer(Answer):
    """When something happened to the room; `at` is null when nobody saw it."""

    name = serializers.ChoiceField(
        ["created", "registered", "first asked", "answered", "connected", "verified", "finished"]
    )
    knowledge = serializers.ChoiceField([str(one) for one in Knowledge])
    at = Moment(allow_null=True)
    who = Chars(allow_blank=True)
    sentence = Chars(allow_blank=True)


class RoomExplanationAnswer(Answer):
    """How far the way of a room is proven."""

    room = Room()
    live = Bool(help_text="Whether look-ups are still answered with a binding of it.")
    proven = Int(source="ladder.proven", help_text="How many of the five rungs.")
    conclusion = RoomConclusionAnswer(source="ladder.conclusion")
    rungs = RoomRungAnswer(many=True, source="ladder.rungs")
    answers = QuestionAnswer(many=True, help_text="The same as questions, in the order in which one would ask them.")
    timeline = RoomMomentAnswer(many=True)
    earlier = Int(help_text="Reports about earlier uses of the number; they are not weighed.")
