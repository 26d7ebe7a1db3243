"""Answers about gateways, what they report, and routers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.models.gateways import Router

from ..fields import Moment
from .base import Answer, Sentences, page_of

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class GatewayAnswer(Answer):
    """One of our gateways."""

    name = Chars()
    url = Chars(allow_blank=True)
    state = serializers.ChoiceField(["present", "silent", "left"])
    sentence = Chars()
    joined_at = Moment()
    seen_at = Moment()
    lease_seconds = serializers.FloatField()
    acknowledged = Chars(allow_null=True, help_text="`LEDGER:N`; null: nothing yet.")
    behind = Int(
        allow_null=True, help_text="Revisions it has not acknowledged; null: it acknowledged none of this ledger."
    )
    open_breakers = Int()
    left_at = Moment(allow_null=True)


class JoinedAnswer(Answer):
    """Take a snapshot that is at least as new as `cursor`, acknowledge it, and go on from there."""

    name = Chars()
    changed = Bool()
    sentence = Chars()
    ledger = Chars()
    revision = Int()
    cursor = Chars()


class AcknowledgedAnswer(Answer):
    ledger = Chars()
    revision = Int(help_text="What counts as acknowledged now: the highest that was said.")


class ReportedAnswer(Answer):
    """What was kept of a report."""

    kept = Int()
    turned = Int(help_text="Breakers that changed.")
    unknown = Sentences(help_text="Instances that nobody knows here; what was said of them is not kept.")


class LeftAnswer(Answer):
    name = Chars()
    changed = Bool()
    sentence = Chars()


class MemberAnswer(Answer):
    """An instance that a router shall know."""

    instance = Chars()
    wanted = Bool()
    present = Bool()
    worker_url = Chars(allow_blank=True)
    sentence = Chars(allow_blank=True)
    changed_at = Moment(allow_null=True)


class RouterAnswer(Answer):
    """A real sglang-router that is kept in step. Its ETag is its `version`."""

    name = Chars()
    url = Chars()
    metrics_url = Chars(allow_blank=True)
    has_key = Bool(help_text="Whether an API key is stored; it is never shown.")
    version = Int()
    state = serializers.ChoiceField(Router.State.values)
    problem = Chars(allow_blank=True)
    checked_at = Moment(allow_null=True)
    restarts = Int()
    members = MemberAnswer(many=True)


GatewaysAnswer: Any = page_of(GatewayAnswer, "GatewayPage")
RoutersAnswer: Any = page_of(RouterAnswer, "RouterPage")
