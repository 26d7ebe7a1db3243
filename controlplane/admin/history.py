"""Records of what happened, who tried what, and which process holds which lease."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from controlplane.access.roles import Role
from controlplane.queries.events import TELL, EventRow, sentence

from .records import Record
from .showing import instance_by_id, moment, when
from .windows import JOURNAL_ROWS


class KindFilter(admin.SimpleListFilter):
    """By the kinds there can be, not by asking the whole table which there are."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind, kind) for kind in sorted(TELL)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


class EventAdmin(Record):
    json = ("data",)
    window = JOURNAL_ROWS
    list_display = ("revision", when("at"), "instance", "kind", "what", "actor", "reason")
    list_filter = (KindFilter,)
    search_fields = ("=instance", "actor", "reason")
    search_help_text = "Search by instance, who or why."
    ordering = ("-revision",)

    @admin.display(description="what")
    def what(self, row: Any) -> str:
        try:
            data = json.loads(row.data)
        except ValueError:
            return str(row.kind)
        return sentence(EventRow(row.revision, row.at, row.kind, row.instance, row.actor, row.reason, data))

    def title(self, row: Any) -> str:
        return f"event {row.revision}: {row.kind}"


class LedgerHeadAdmin(Record):
    list_display = ("ledger_id", "revision")
    ordering = ("id",)

    def title(self, row: Any) -> str:
        return f"ledger {row.ledger_id}, revision {row.revision}"


class AttemptAdmin(Record):
    """For admins: what somebody typed at a sign-in that failed may be a password."""

    least = Role.ADMIN
    window = JOURNAL_ROWS
    list_display = (when("at"), "actor", "via", "source", "action", "target", "allowed", "status", "reason", "outcome")
    list_filter = ("allowed",)
    search_fields = ("actor", "source", "action", "target", "reason")
    search_help_text = "Search by who, from where, what, on what or why."
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"attempt of {row.action} by {row.actor}, {'allowed' if row.allowed else 'refused'}"


class LogEntryAdmin(Record):
    """Django's own note of what was changed in this admin: accounts and groups."""

    least = Role.ADMIN
    window = JOURNAL_ROWS
    list_display = (when("action_time"), "user", "content_type", "object_repr", "shown_change")
    list_select_related = ("user", "content_type")
    search_fields = ("object_repr",)
    ordering = ("-id",)

    @admin.display(description="change")
    def shown_change(self, row: Any) -> str:
        return str(row.get_change_message())

    def title(self, row: Any) -> str:
        return str(row)


class LeaseAdmin(Record):
    list_display = ("name", "holder", "token", "renewed")
    ordering = ("name",)

    @admin.display(description="renewed")
    def renewed(self, row: Any) -> str:
        # The column is a stamp, and 0 once the lease was given back.
        return moment(row.expires_at) if row.expires_at else "given back"

    def title(self, row: Any) -> str:
        return f"lease {row.name}"


class WorkerLeaseAdmin(Record):
    list_display = (
        "worker",
        instance_by_id,
        "token",
        "slots",
        when("seen_at", "seen"),
        when("expires_at", "expires"),
        when("late_since", "late since"),
    )
    ordering = ("worker",)

    def title(self, row: Any) -> str:
        return f"worker {row.worker}"


class TaskRoundAdmin(Record):
    """What the page of the clockwork is made of."""

    list_display = (
        "task",
        "number",
        when("began_at", "began"),
        when("ended_at", "ended"),
        "outcome",
        "took_seconds",
        "failures",
        "ran_by",
        "sent_by",
    )
    ordering = ("task",)

    def title(self, row: Any) -> str:
        return f"task {row.task}"


class TaskFailureAdmin(Record):
    list_display = (when("at"), "task", "outcome", "count", when("since", "since"), "ran_by")
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"task {row.task}: {row.outcome}"


class TrafficFenceAdmin(Record):
    list_display = ("id", "token")
    ordering = ("id",)


class SampleAdmin(Record):
    """What the charts of the activity page are drawn from."""

    window = JOURNAL_ROWS
    list_display = (
        when("at"),
        "seconds",
        "registrations",
        "lookups",
        "bindings",
        "refusals",
        "rooms",
        "probes",
        "unanswered",
        "probe_p50_ms",
        "probe_p99_ms",
    )
    ordering = ("-id",)

    def _shown(self, field: Any) -> str | Callable[[Any], Any]:
        # Its other numbers with a point are no moments.
        return when("at") if field.name == "at" else str(field.name)

    def title(self, row: Any) -> str:
        return f"sample {row.pk}, of {row.seconds:.0f} s"
