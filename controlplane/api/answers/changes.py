"""Answers to changes: what was done, as a sentence, and the operation to follow when it takes time."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ..fields import Group, Moment
from .base import Answer, Sentences

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class DoneAnswer(Answer):
    """What was done."""

    name = Chars()
    changed = Bool()
    sentence = Chars()
    advice = Sentences()


class OperationAnswer(Answer):
    """Something that takes time. It has ended when `state` is not running."""

    id = Chars()
    action = Chars()
    instance = Chars()
    dp = Group(source="group", read_only=True)
    slot = Chars(allow_null=True)
    state = serializers.ChoiceField(["running", "succeeded", "refused", "forced", "cancelled"])
    ended = Bool()
    sentence = Chars(allow_blank=True)
    blockers = Sentences()
    safe_to_delete = Bool(allow_null=True, help_text="Of a drain: whether that launch may be deleted now.")
    actor = Chars()
    reason = Chars(allow_blank=True)
    made_at = Moment()
    ended_at = Moment(allow_null=True)


class PlanAnswer(Answer):
    """What taking this out of use would mean: what remains, who must stop, who can tell that nothing is left."""

    role = Chars()
    launch = Int(allow_null=True)
    instances_now = Int(help_text="Routable instances of this role.")
    instances_after = Int()
    groups_now = Int()
    groups_after = Int()
    ranks_now = Int()
    ranks_after = Int()
    pairs_now = Int(help_text="Routable prefill × routable decode instances.")
    pairs_after = Int()
    min_ready = Int()
    can_stop_admission = Bool(help_text="Whether whoever chooses workers is known, and can be told.")
    selectors = Sentences()
    witnesses = Sentences()
    refused = Chars(allow_null=True, help_text="Why a drain would be refused now; null: it would not.")
    sentences = Sentences()


class ChangedAnswer(Answer):
    """What an action did, or with `dry_run` what it would have done."""

    instance = Chars()
    dp = Group(read_only=True)
    changed = Bool()
    sentence = Chars()
    intent = Chars(allow_null=True)
    version = Int(allow_null=True)
    operation = Chars(allow_null=True, help_text="The operation to follow, under /api/v1/operations/.")
    dry_run = Bool()
    plan = PlanAnswer(allow_null=True, help_text="With `dry_run`: what it would mean for the fleet.")


def done(row: Any) -> dict[str, Any]:
    """What a command on an instance or a router did; only the former gives advice."""
    said = {key: getattr(row, key) for key in ("name", "changed", "sentence")}
    return DoneAnswer.of({**said, "advice": getattr(row, "advice", ())})


def changed_document(name: str, found: Any, *, dry_run: bool, plan: dict[str, Any] | None) -> dict[str, Any]:
    said = {"instance": name, "dp": found.group, "dry_run": dry_run, "plan": plan}
    for key in ("changed", "sentence", "intent", "version", "operation"):
        said[key] = getattr(found, key)
    if dry_run:
        # Rolled back: there is nothing to follow, and no such version.
        said |= {"operation": None, "version": None}
    return ChangedAnswer.of(said)


def plan_document(plan: Any) -> dict[str, Any]:
    return PlanAnswer.of(plan)
