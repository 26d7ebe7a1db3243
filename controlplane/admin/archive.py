"""Records of the past: stored states, launches in the archive, what was purged, what has gone."""

from __future__ import annotations

from typing import Any

from .records import Record
from .showing import when


class ArchivedLaunchAdmin(Record):
    json = ("facts",)
    hidden = ("ranks",)
    list_display = (
        "number",
        "instance",
        "state",
        "replaced_by",
        "token",
        "rank_count",
        when("first_seen_at", "first seen"),
        when("last_seen_at", "last seen"),
        when("ended_at", "ended"),
        "ended_reason",
    )
    list_filter = ("state",)
    search_fields = ("=instance",)
    search_help_text = "Search by instance."
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"archived launch {row.number} of {row.instance}, {row.state}"


class PurgedInstanceAdmin(Record):
    list_display = (
        "name",
        "role",
        when("created_at", "created"),
        when("retired_at", "retired"),
        when("purged_at", "purged"),
        "actor",
        "reason",
        "override",
    )
    search_fields = ("name", "actor", "reason")
    search_help_text = "Search by name, who or why."
    ordering = ("-purged_at",)

    def title(self, row: Any) -> str:
        return f"purged instance {row.name}"


class StoredStateAdmin(Record):
    list_display = ("revision", when("at"), when("stored_at", "stored"), "parts", "size_bytes")
    ordering = ("-revision",)

    def title(self, row: Any) -> str:
        return f"stored state of revision {row.revision}"


class StoredPartAdmin(Record):
    hidden = ("compressed",)
    list_display = ("id", "revision", "instance")
    search_fields = ("=instance",)
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"part of the stored state of revision {row.revision}"


class TrimmedAdmin(Record):
    list_display = ("subject", when("at", "last"), "count", "total")
    ordering = ("subject",)

    def title(self, row: Any) -> str:
        return f"trimmed {row.subject}"
