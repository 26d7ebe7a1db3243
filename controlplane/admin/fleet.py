"""The fleet's records: instances and what is wanted of them, launches, drains, requests, engine info."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from controlplane.acts.table import DRAIN, INSTANCE
from controlplane.acts.targets import Target

from .picking import Offering, address_of, offered
from .records import Record
from .showing import as_json, group, instance_by_id, when


class InstanceAdmin(Offering):
    kind = INSTANCE
    hidden = ("engine_key",)
    list_display = (
        "name",
        "role",
        "intent",
        when("intent_at", "since"),
        "intent_actor",
        "intent_reason",
        "own_port",
        "host_alias",
        "engine_url",
        "observed_url",
        "version",
    )
    list_filter = ("role", "intent")
    search_fields = ("name", "host_alias", "engine_url", "observed_url", "intent_actor", "intent_reason")
    ordering = ("name",)
    change_form_template = "admin/controlplane/instance_form.html"

    def title(self, row: Any) -> str:
        return f"instance {row.name}, {row.role}"

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        row = kwargs.get("obj")
        if row is not None:
            acts = offered(request, INSTANCE)
            context["acts"] = [(label, address_of(name, [Target(row.name)], back=request.path)) for name, label in acts]
        return super().render_change_form(request, context, *args, **kwargs)


class LaunchAdmin(Record):
    json = ("facts", "claims")
    list_display = (
        "number",
        instance_by_id,
        "state",
        "sizes",
        "token",
        when("opened_at", "opened"),
        when("completed_at", "complete"),
        when("ended_at", "ended"),
        "ended_reason",
    )
    list_filter = ("state",)
    ordering = ("-id",)

    @admin.display(description="topology")
    def sizes(self, row: Any) -> str:
        return f"dp {row.dp}, cp {row.cp}, tp {row.tp}, pp {row.pp}"

    def title(self, row: Any) -> str:
        return f"launch {row.number}, {row.state}"


class GroupIntentAdmin(Record):
    list_display = (instance_by_id, group, "intent", when("at", "since"), "actor", "reason")
    list_display_links = (group,)
    list_filter = ("intent",)
    ordering = ("instance_id", "group")

    def title(self, row: Any) -> str:
        return f"DP group {row.group} is {row.intent}"


class OpenFilter(admin.SimpleListFilter):
    """Rows without an end: what is still going on. Subclasses say which column holds the end."""

    title = "open"
    parameter_name = "open"
    end: ClassVar[str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Yes"), ("no", "No")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in ("yes", "no"):
            return queryset
        return queryset.filter(**{f"{self.end}__isnull": self.value() == "yes"})


class OpenDrains(OpenFilter):
    end = "ended_at"


class Unanswered(OpenFilter):
    title = "unanswered"
    end = "answered_at"


class DrainAdmin(Offering):
    kind = DRAIN
    json = ("seen", "blockers")
    list_display = (
        "id",
        "instance",
        group,
        "progress",
        as_json("blockers", "waits for"),
        when("started_at", "started"),
        when("deadline_at", "deadline"),
        when("checked_at", "checked"),
        when("ended_at", "ended"),
        "actor",
        "reason",
    )
    list_filter = ("progress", OpenDrains)
    search_fields = ("instance", "actor", "reason")
    search_help_text = "Search by instance, who or why."
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"drain {row.pk} of {row.instance}, {row.progress}"


class RequestAdmin(Record):
    list_display = (
        "id",
        "kind",
        "instance",
        "slot",
        "actor",
        "reason",
        when("made_at", "made"),
        when("answered_at", "answered"),
        "granted",
        "answer",
    )
    list_filter = ("kind", Unanswered, "granted")
    search_fields = ("instance", "actor", "reason")
    search_help_text = "Search by instance, who or why."
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"request {row.pk}: {row.kind} {row.instance}"
