"""Answers about drains."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.models.intent import Drain
from controlplane.queries.drains import DrainRow, told

from ..fields import Group, Moment
from .base import Answer, Sentences, page_of

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class OpenDrainAnswer(Answer):
    """A drain that has not ended, within its instance."""

    drain = Int(source="id")
    dp = Group(source="group", read_only=True)
    launch = Int(allow_null=True)
    progress = serializers.ChoiceField(Drain.Progress.values)
    blockers = Sentences()
    actor = Chars()
    reason = Chars(allow_blank=True)
    started_at = Moment()
    deadline_at = Moment(allow_null=True)
    min_ready = Int()
    checked_at = Moment(allow_null=True)
    empty_at = Moment(allow_null=True)


class ReadingAnswer(Answer):
    """What one witness last said of a DP rank."""

    kind = serializers.ChoiceField(["engine", "worker", "gateway"])
    source = Chars(allow_blank=True)
    dp = Group(read_only=True)
    taken_at = Moment()
    open = Int(allow_null=True, help_text="Null: it did not say, which is not zero.")
    counts = serializers.DictField(child=Int())


class DrainAnswer(Answer):
    """One drain, under way or ended."""

    id = Int()
    operation = Chars()
    instance = Chars()
    dp = Group(source="group", read_only=True)
    launch = Int(allow_null=True, help_text="What was current when it began: what `safe_to_delete` is about.")
    current_launch = Int(allow_null=True)
    progress = serializers.ChoiceField(Drain.Progress.values)
    safe_to_delete = Bool()
    sentences = Sentences(help_text="The story, the verdict first.")
    blockers = Sentences(help_text="What it waits for.")
    waiting_for = Sentences(help_text="Witnesses that have not said enough.")
    readings = ReadingAnswer(many=True)
    engine_problem = Chars(allow_blank=True)
    actor = Chars()
    reason = Chars(allow_blank=True)
    started_at = Moment()
    deadline_at = Moment(allow_null=True)
    min_ready = Int()
    cordon_revision = Int(help_text="What every gateway must acknowledge.")
    stopped_at = Moment(allow_null=True, help_text="Since when nothing new can come.")
    checked_at = Moment(allow_null=True)
    empty_at = Moment(allow_null=True)
    ended_at = Moment(allow_null=True)
    ended_reason = Chars(allow_blank=True)


DrainsAnswer: Any = page_of(DrainAnswer, "DrainPage")


def drain_document(row: DrainRow, *, now: float) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in row.__dataclass_fields__}
    more = {"operation": f"drain-{row.id}", "safe_to_delete": row.safe_to_delete, "sentences": told(row, now=now)}
    return DrainAnswer.of({**fields, **more})
