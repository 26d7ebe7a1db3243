"""Records of alarms, and of the messages that tell of them."""

from __future__ import annotations

from typing import Any

from .records import Record
from .showing import when
from .windows import JOURNAL_ROWS


class AlarmAdmin(Record):
    window = JOURNAL_ROWS
    list_display = (
        "id",
        "severity",
        "name",
        "what",
        when("began_at", "began"),
        when("raised_at", "raised"),
        when("resolved_at", "resolved"),
        "returns",
        "acknowledged_by",
    )
    list_filter = ("severity",)
    search_fields = ("=instance", "name", "key")
    search_help_text = "Search by instance, name or key."
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"alarm {row.pk}: {row.name} {row.what}"


class AlarmNoticeAdmin(Record):
    window = JOURNAL_ROWS
    json = ("body",)
    list_display = (
        "notice",
        "alarm_id",
        "kind",
        "state",
        when("made_at", "made"),
        "attempts",
        "status",
        "problem",
        when("ended_at", "ended"),
    )
    list_filter = ("state",)
    search_fields = ("=notice",)
    search_help_text = "Search by the message's id."
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"message {row.notice}"


class AlarmDeskAdmin(Record):
    list_display = ("id", when("decided_at", "decided"))
    ordering = ("id",)
