"""Records of those who choose workers: gateways and what they report, routers and what they hold."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from controlplane.databases import READER
from controlplane.models import Router

from .records import Record
from .showing import group, when
from .windows import JOURNAL_ROWS, BoundedChangeList


class GatewayAdmin(Record):
    list_display = (
        "name",
        "url",
        when("seen_at", "seen"),
        "lease_seconds",
        "acknowledged_revision",
        when("registered_at", "registered"),
        when("left_at", "left"),
    )
    search_fields = ("name", "url")
    ordering = ("name",)

    def title(self, row: Any) -> str:
        return f"gateway {row.name}"


class BreakerAdmin(Record):
    list_display = ("gateway", "instance", group, "state", when("since"), when("reported_at", "reported"), "reason")
    list_filter = ("state",)
    search_fields = ("gateway", "instance")
    search_help_text = "Search by gateway or instance."
    ordering = ("instance", "group", "gateway")

    def title(self, row: Any) -> str:
        return f"breaker of {row.gateway} for {row.instance}, {row.state}"


class OpenRoomsAdmin(Record):
    list_display = (
        "source",
        "kind",
        "instance",
        group,
        "open_rooms",
        when("taken_at", "true at"),
        when("received_at", "received"),
        "launch_token",
    )
    list_filter = ("kind",)
    search_fields = ("source", "instance")
    search_help_text = "Search by witness or instance."
    ordering = ("instance", "group", "source")

    def title(self, row: Any) -> str:
        return f"open rooms of {row.instance} according to {row.source}"


class OutcomeCountAdmin(Record):
    window = JOURNAL_ROWS
    list_display = (when("minute", scale=60), "gateway", "prefill", "decode", "outcome", "count")
    search_fields = ("gateway", "prefill", "decode", "outcome")
    search_help_text = "Search by gateway, instance or outcome."
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"outcome {row.outcome}, reported by {row.gateway}"


class RouterAdmin(Record):
    hidden = ("api_key",)
    list_display = ("name", "url", "state", "problem", when("checked_at", "checked"), "restarts", "actor", "version")
    list_filter = ("state",)
    search_fields = ("name", "url")
    ordering = ("name",)

    def title(self, row: Any) -> str:
        return f"router {row.name}"


class MemberChangeList(BoundedChangeList):
    """Knows the names of the routers on the page, by one query."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        names = router_names({row.router_id for row in self.result_list})
        for row in self.result_list:
            row.router_name = names.get(row.router_id, "")


class RouterMemberAdmin(Record):
    list_display = ("router", "instance", "present", "worker_url", "sentence", when("changed_at", "changed"))
    list_filter = ("present",)
    search_fields = ("instance", "worker_url")
    search_help_text = "Search by instance or address."
    ordering = ("router_id", "instance")

    @admin.display(description="router", ordering="router_id")
    def router(self, row: Any) -> str:
        name = row.router_name if hasattr(row, "router_name") else router_names({row.router_id}).get(row.router_id)
        return name or f"router {row.router_id}, which is gone"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BoundedChangeList]:
        return MemberChangeList

    def title(self, row: Any) -> str:
        return f"worker {row.instance} of {self.router(row)}"


def router_names(ids: set[int]) -> dict[int, str]:
    return dict(Router.objects.using(READER).filter(pk__in=ids).values_list("pk", "name"))
