"""Records of transfer-engine info and of rooms: what ranks published, and what requests were bound to."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from controlplane.queries.wording import counted

from .records import Record
from .showing import instance_by_id, when
from .windows import JOURNAL_ROWS


class EngineHealthAdmin(Record):
    list_display = (
        instance_by_id,
        "state",
        "why",
        when("since", "since"),
        "at",
        "status",
        "fails",
        when("asked_at", "asked"),
        when("proof_at", "well"),
        "error",
    )
    list_filter = ("state",)
    search_fields = ("at",)
    ordering = ("instance_id",)

    def title(self, row: Any) -> str:
        return f"engine at {row.at or 'nowhere'}, {row.state}"


class SuspicionAdmin(Record):
    list_display = ("instance", "by", "reason", when("at", "when"))
    search_fields = ("instance", "by", "reason")
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"doubt about {row.instance}"


class EngineInfoAdmin(Record):
    list_display = (
        "session",
        instance_by_id,
        "rank",
        "epoch",
        "state",
        "tensors",
        "size",
        when("at", "published"),
        when("ended_at", "ended"),
        "ended_reason",
    )
    list_filter = ("state",)
    ordering = ("-id",)

    @admin.display(description="bytes", ordering="total_bytes")
    def size(self, row: Any) -> str:
        return f"{row.total_bytes:,}"

    def title(self, row: Any) -> str:
        return f"session {row.session}, {row.state}"


class EngineBodyAdmin(Record):
    """What it weighs, never what is in it: that may be megabytes."""

    hidden = ("compressed",)
    list_display = ("digest", "size")
    search_fields = ("digest__startswith",)
    search_help_text = "Search by the beginning of a digest."
    ordering = ("digest",)

    @admin.display(description="size", ordering="size_bytes")
    def size(self, row: Any) -> str:
        return counted(row.size_bytes, "byte")

    def title(self, row: Any) -> str:
        return f"engine body {row.digest[:12]}…"


class RoomBindingAdmin(Record):
    """The journal as it stands; which binding of a room counts is what `manage.py rooms` and the API say."""

    window = JOURNAL_ROWS
    list_display = ("id", instance_by_id, "room", "dp", when("expires_ms", "expires", scale=0.001))
    number = "room"
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"room {row.room} bound to dp{row.dp}"


class RoomCollisionAdmin(Record):
    window = JOURNAL_ROWS
    list_display = ("id", instance_by_id, "room", "before", "after", when("at"))
    number = "room"
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"room {row.room}, dp{row.before} and then dp{row.after}"


class RoomReuseAdmin(Record):
    window = JOURNAL_ROWS
    list_display = ("id", instance_by_id, "room", "before", "after", "over", when("expired_at", "expired"), when("at"))
    list_filter = ("over",)
    number = "room"
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"room {row.room}, dp{row.before}, which was over, and then dp{row.after}"


class RoomReportAdmin(Record):
    window = JOURNAL_ROWS
    list_display = ("id", "room", "instance", "rung", "result", "detail", "source", "speaker", when("at"))
    list_filter = ("rung",)
    number = "room"
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"room {row.room}, {row.rung} {row.result} according to {row.source}"


class RoomLookupAdmin(Record):
    window = JOURNAL_ROWS
    list_display = (
        "id",
        instance_by_id,
        "room",
        "asked_by",
        when("asked_at", "asked"),
        when("answered_at", "answered"),
    )
    number = "room"
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"room {row.room}, asked for by {row.asked_by}"


class ReportBatchAdmin(Record):
    window = JOURNAL_ROWS
    list_display = ("id", "source", "run", "number", "kept", "left_out", when("received_at", "received"))
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"batch {row.number} of {row.source}"
