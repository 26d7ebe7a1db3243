"""Answers about an engine's own HTTP server."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.domain.engine_health import State
from controlplane.queries.engine_health import EngineRow

from ..fields import Moment
from .base import Answer

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class SignalsAnswer(Answer):
    """What the last probe found, one by one; null: it was not asked."""

    connect = Bool(allow_null=True, help_text="It accepted a connection.")
    http = Bool(allow_null=True, help_text="Its /health answered 200.")
    progress = Bool(allow_null=True, help_text="Its load was fresh: its scheduler runs, whatever /health says.")


class EngineAnswer(Answer):
    """What the engine's own HTTP server is like. Unknown keeps nobody away."""

    state = serializers.ChoiceField([state.value for state in State])
    why = Chars(
        allow_blank=True, help_text="refused, failing, lost, timeout, unreached, missed, busy, role or strange."
    )
    sentence = Chars(allow_blank=True)
    at = Chars(allow_blank=True, help_text="Where it is asked; blank: nowhere.")
    since = Moment(allow_null=True)
    asked_at = Moment(allow_null=True, help_text="The last probe; older than a minute, nobody asks.")
    answered_at = Moment(allow_null=True)
    proof_at = Moment(allow_null=True, help_text="When it was well last.")
    status = Int(allow_null=True, help_text="Of the last answer to /health.")
    error = Chars(allow_blank=True, help_text="What went wrong last.")
    error_at = Moment(allow_null=True)
    fails = Int(help_text="Misses in a row, as far as they count.")
    signals = serializers.SerializerMethodField()
    said = serializers.DictField(child=serializers.JSONField(), source="told", help_text="What it says of itself.")
    identified_at = Moment(allow_null=True)
    load = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="What it held when it was asked last. `still`, `still_dp`: how many DP ranks compute no more while others do,"
        " and the first of them; `held_up_since` (epoch seconds): since when nothing of what waits gets on.",
    )
    load_at = Moment(allow_null=True)
    withheld_since = Moment(allow_null=True, help_text="It fails, and that is not held against it: most engines do.")

    @extend_schema_field(SignalsAnswer)
    def get_signals(self, row: EngineRow) -> dict[str, bool | None]:
        return row.signals()


class SuspectedAnswer(Answer):
    """What a doubt began. `changed` false: it was being asked already."""

    name = Chars()
    changed = Bool()
    sentence = Chars()
    at = Moment()
    engine = EngineAnswer()
