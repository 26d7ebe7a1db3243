"""Answers about instances, their launches and ranks."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.domain.observing import State
from controlplane.models import Instance
from controlplane.queries.rows import InstanceRow, RankRow
from controlplane.queries.wording import slot_key

from ..fields import Group, Moment, SlotKey
from .base import Answer, Sentences, page_of
from .drains import OpenDrainAnswer
from .engines import EngineAnswer

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class TopologyAnswer(Answer):
    dp, cp, tp, pp = Int(), Int(), Int(), Int()


class RankAnswer(Answer):
    """Who sits, or sat, in a slot."""

    launch = Int()
    slot = SlotKey()
    ip = Chars()
    port = Int()
    address = Chars(help_text="`ip:port`; IPv6 in brackets.")
    http_port = Int(allow_null=True)
    contact = Chars(help_text="What its last probe saw: up, refused, silent, unreached, stranger, unprobed.")
    greeted = Bool()
    verified = Bool()
    flags = Sentences()
    first_at = Moment()
    seen_at = Moment()
    left_at = Moment(allow_null=True)
    left_reason = Chars(allow_blank=True)


class ClaimAnswer(Answer):
    slot = SlotKey()
    ip = Chars()
    port = Int()


class LaunchAnswer(Answer):
    """One start of an instance."""

    number = Int()
    state = serializers.ChoiceField(["current", "candidate", "replaced", "dropped"])
    topology = TopologyAnswer()
    facts = serializers.DictField(child=serializers.JSONField(allow_null=True))
    token = Chars(allow_null=True)
    registered = Int()
    expected = Int()
    missing = serializers.ListField(child=SlotKey(), help_text="The first 16.")
    opened_at = Moment()
    completed_at = Moment(allow_null=True)
    unchecked = Bool()
    claims = ClaimAnswer(many=True)
    ended_at = Moment(allow_null=True)
    ended_reason = Chars(allow_blank=True)


class HealthAnswer(Answer):
    status = Int(source="health")
    since = Moment(source="debt_since", allow_null=True)
    reason = Chars(source="health_reason", allow_blank=True)


class IntentByAnswer(Answer):
    actor = Chars(source="intent_actor", allow_blank=True)
    reason = Chars(source="intent_reason", allow_blank=True)
    at = Moment(source="intent_at", allow_null=True)


class GroupAnswer(Answer):
    dp = Group(source="group", read_only=True)
    intent = Chars()
    actor = Chars(allow_blank=True)
    reason = Chars(allow_blank=True)
    at = Moment()


class BreakerAnswer(Answer):
    gateway = Chars()
    dp = Group(source="group", read_only=True)
    state = serializers.ChoiceField(["closed", "open", "half_open"])
    since = Moment()
    reported_at = Moment()
    reason = Chars(allow_blank=True)


class SessionsAnswer(Answer):
    sessions = Int()
    conflicts = Int()


class ObservationAnswer(Answer):
    """What an observed instance's own server is like."""

    state = serializers.ChoiceField([state.value for state in State])
    sentence = Chars()
    since = Moment()
    answered_at = Moment(allow_null=True)
    registered = Int(allow_null=True, help_text="Ranks that a server which is not ready says it has.")
    said = serializers.DictField(child=serializers.JSONField(), help_text="What its engine told of itself.")


class InstanceAnswer(Answer):
    """An instance, rolled up. Its ETag is its `version`, which counts what operators changed."""

    name = Chars()
    role = serializers.ChoiceField(Instance.Role.values)
    intent = serializers.ChoiceField(Instance.Intent.values)
    intent_by = IntentByAnswer(source="*")
    version = Int()
    state = Chars(help_text="One word: serving, incomplete, unproven, flushing, empty, cordoned, draining, retired.")
    serving = Bool()
    complete = Bool()
    registered = Int()
    expected = Int()
    missing = serializers.SerializerMethodField()
    health = HealthAnswer(source="*")
    own_port = Int(allow_null=True)
    host_alias = Chars(allow_null=True)
    engine_url = Chars(allow_blank=True)
    knowledge = serializers.ChoiceField(
        ["observed", "registered"],
        help_text="observed: copied from the engine's own servers; registered: told by its ranks.",
    )
    observed_url = Chars(allow_blank=True)
    observed_engine_info_url = Chars(allow_blank=True)
    observation = ObservationAnswer(allow_null=True)
    engine = EngineAnswer()
    probe_seconds = serializers.FloatField(
        allow_null=True, help_text="How often its engine is asked; null: as all are."
    )
    fail_after = Int(allow_null=True, help_text="Misses in a row that make its engine unhealthy; null: as of all.")
    pass_after = Int(allow_null=True, help_text="Answers in a row that make it healthy again; null: as of all.")
    created_at = Moment()
    retired_at = Moment(allow_null=True)
    launch = LaunchAnswer(source="current", allow_null=True)
    candidate = LaunchAnswer(allow_null=True)
    flagged = RankAnswer(many=True)
    flagged_count = Int()
    left_lately = RankAnswer(many=True, source="left")
    engine_info = SessionsAnswer(source="*")
    groups = GroupAnswer(many=True)
    drains = OpenDrainAnswer(many=True)
    breakers = BreakerAnswer(many=True)

    @extend_schema_field(serializers.ListField(child=SlotKey()))
    def get_missing(self, row: InstanceRow) -> list[str]:
        return [slot_key(slot) for slot in row.current.missing] if row.current else []


class BootstrapAnswer(Answer):
    leads = Bool()
    holder = Chars(allow_blank=True)
    term = Int()
    renewed_at = Moment(allow_null=True)


class InstancesAnswer(Answer):
    """A page of instances, as of one revision of the ledger, and the bootstrap process that answers for them."""

    ledger = Chars()
    revision = Int()
    bootstrap = BootstrapAnswer()
    items = InstanceAnswer(many=True)
    next = Chars(allow_null=True)


def rank_key(rank: RankRow) -> str:
    """Where a rank stands in its list: ranks of a later launch come later."""
    return ".".join(f"{number:06d}" for number in (rank.launch, *rank.slot))


class EngineInfoAnswer(Answer):
    """One published session of transfer-engine info; the weights themselves are left out."""

    rank = Int()
    epoch = Int()
    session = Chars()
    digest = Chars()
    tensors = Int()
    total_bytes = Int()
    old_style = Bool()
    greeted = Bool()
    contact = Chars(
        allow_blank=True,
        help_text="What its last probe saw: up, silent (it takes connections and does not answer), stranger (another"
        " program), refused or unreached; blank: not probed.",
    )
    state = serializers.ChoiceField(["live", "conflict", "retired"])
    at = Moment()
    ended_at = Moment(allow_null=True)
    ended_reason = Chars(allow_blank=True)


LaunchesAnswer: Any = page_of(LaunchAnswer, "LaunchPage")
RanksAnswer: Any = page_of(RankAnswer, "RankPage")
EngineInfosAnswer: Any = page_of(EngineInfoAnswer, "EngineInfoPage")


class WorkerAnswer(Answer):
    """A worker process that sends heartbeats. One that is late evicts nobody: probes decide whether its ranks count."""

    worker = Chars()
    token = Chars(allow_null=True)
    slots = serializers.ListField(child=SlotKey())
    late = Bool()
    sentence = Chars()
    lease_seconds = serializers.FloatField()
    seen_at = Moment()
    expires_at = Moment()
    late_since = Moment(allow_null=True)


WorkersAnswer: Any = page_of(WorkerAnswer, "WorkerPage")
