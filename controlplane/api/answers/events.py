"""Answers about the ledger: events, and the snapshot that they change."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.ledger import position
from controlplane.queries.events import EventRow, sentence

from ..fields import Moment
from .base import Answer

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class EventAnswer(Answer):
    """One change of a fact."""

    revision = Int()
    at = Moment()
    kind = Chars()
    instance = Chars(allow_blank=True)
    actor = Chars(allow_blank=True)
    reason = Chars(allow_blank=True)
    sentence = serializers.SerializerMethodField()
    data = serializers.DictField(child=serializers.JSONField(allow_null=True))

    def get_sentence(self, row: EventRow) -> str:
        return sentence(row)


class EventsAnswer(Answer):
    """Events, and where to go on."""

    ledger = Chars()
    revision = Int(help_text="The head of the ledger when this was read.")
    items = EventAnswer(many=True)
    next = Chars(
        allow_null=True,
        help_text="With `after`: give it as `after`, at once when `more`, else with `wait`. Without: give it as `before`"
        " for what is older; null when there is nothing older.",
    )
    more = Bool()


class FleetAnswer(Answer):
    """All facts at one revision. Applying the events after `cursor` to `state` gives every later state."""

    ledger = Chars()
    revision = Int()
    cursor = Chars(help_text="Give it as `after` to /events: what happens from here on.")
    state = serializers.DictField(child=serializers.JSONField())


def position_after(ledger_id: str, row: EventRow) -> str:
    return str(position.after(ledger_id, row))


Shape = Any
