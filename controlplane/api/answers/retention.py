"""Answers about the past: what is kept of it, what is stale, what is in the archive, what was purged."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.domain.topology import Slot
from controlplane.models import Launch
from controlplane.queries.wording import slot_key

from ..fields import Moment
from .base import Answer, Sentences, page_of

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class KeptAnswer(Answer):
    """How long something is kept, and how much of it has gone."""

    subject = Chars()
    what = Chars()
    setting = Chars(help_text="The environment variable that says so.")
    kept_seconds = serializers.FloatField(allow_null=True, help_text="Null: for ever.")
    gone_at = Moment(allow_null=True, help_text="When some of it went last.")
    gone = Int(help_text="How much went then.")
    total = Int(help_text="How much ever went.")


class RetentionAnswer(Answer):
    """From when on the past can be told, and what is kept for how long."""

    head = Int(help_text="The newest revision of the ledger.")
    first = Int(help_text="The oldest revision that is kept; `as_of` can be told from there on.")
    first_at = Moment(allow_null=True)
    states = Int(help_text="Stored states, from which `as_of` is told.")
    stored = Int(allow_null=True, help_text="The revision of the newest stored state.")
    stored_at = Moment(allow_null=True)
    items = KeptAnswer(many=True, source="rows")


class StaleAnswer(Answer):
    """An instance that looks dead."""

    instance = Chars()
    role = Chars()
    what = serializers.ChoiceField(["retired", "silent", "empty"])
    since = Moment()
    reason = Chars()
    registered = Int(help_text="Ranks of its open launches.")
    answering = Int(help_text="Of these, how many answered when they were asked last.")
    alive = Chars(
        allow_blank=True,
        help_text="Why a purge needs an override; blank: it needs none, unless ranks answer when they are asked for it.",
    )


class EndedAnswer(Answer):
    """Launches that ended."""

    waiting = Int(help_text="In the tables of the directory still.")
    archived = Int()
    oldest = Moment(allow_null=True)
    newest = Moment(allow_null=True)


class StaleListAnswer(Answer):
    """Instances that look dead, and how many launches ended."""

    items = StaleAnswer(many=True)
    next = Chars(allow_null=True, help_text="Give it as `cursor` for the next page; null on the last.")
    launches = EndedAnswer()


class ArchivedRankAnswer(Answer):
    """Who sat, or sat last, in a slot of it."""

    slot = serializers.SerializerMethodField()
    ip = Chars()
    port = Int()
    first_at = Moment()
    seen_at = Moment()
    left_at = Moment(allow_null=True)
    left_reason = Chars(allow_blank=True)

    def get_slot(self, row: dict[str, Any]) -> str:
        return slot_key(Slot(*row["slot"]))


class ArchivedLaunchAnswer(Answer):
    """A launch that ended, with its ranks."""

    instance = Chars()
    number = Int()
    state = serializers.ChoiceField([Launch.State.REPLACED.value, Launch.State.DROPPED.value])
    replaced_by = Int(allow_null=True, help_text="The launch that took its place.")
    token = Chars(allow_null=True)
    topology = serializers.ListField(child=Int(), help_text="dp, cp, tp, pp.")
    opened_at = Moment()
    completed_at = Moment(allow_null=True)
    ended_at = Moment()
    ended_reason = Chars(allow_blank=True)
    first_seen_at = Moment(allow_null=True, help_text="The first registration of any of its ranks.")
    last_seen_at = Moment(allow_null=True, help_text="The last one.")
    archived_at = Moment()
    rank_count = Int()
    ranks = ArchivedRankAnswer(many=True)


class PurgedArchiveAnswer(Answer):
    """What went out of the archive, or with `dry_run` what would."""

    count = Int()
    sentence = Chars()
    dry_run = Bool()


class PurgePlanAnswer(Answer):
    """What a purge would take away."""

    instance = Chars()
    alive = Chars(allow_blank=True, help_text="Why it needs an override; blank: it needs none.")
    sentences = Sentences()
    operation = Chars(
        allow_null=True, help_text="The operation to follow, under /api/v1/operations/; null in a dry run."
    )
    dry_run = Bool()


ArchiveAnswer: Any = page_of(ArchivedLaunchAnswer, "ArchivePage")
