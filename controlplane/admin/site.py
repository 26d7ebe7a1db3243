"""The admin site: whoever has a role may enter, and what there is to see is in the order in which people think of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods

from controlplane.access.roles import Role

from . import acting, ranks
from .forms import SignInForm
from .rights import role_on

SECTIONS = (
    ("Fleet", ("Instance", "Rank", "Launch", "GroupIntent", "Drain", "EngineHealth", "Suspicion", "Request")),
    (
        "Engine info and rooms",
        (
            "EngineInfo",
            "EngineBody",
            "RoomBinding",
            "RoomCollision",
            "RoomReuse",
            "RoomReport",
            "RoomLookup",
            "ReportBatch",
        ),
    ),
    ("Gateways and routers", ("Gateway", "Breaker", "OpenRooms", "OutcomeCount", "Router", "RouterMember")),
    ("History", ("Alarm", "AlarmNotice", "Event", "Attempt", "LogEntry")),
    ("Archive", ("ArchivedLaunch", "PurgedInstance", "StoredState", "StoredPart", "Trimmed")),
    ("Access", ("User", "Group", "MachineToken", "SignInLink", "IdempotentRequest")),
    (
        "Processes",
        ("Lease", "WorkerLease", "TaskRound", "TaskFailure", "LedgerHead", "TrafficFence", "AlarmDesk", "Sample"),
    ),
)
OTHER = "Other"


class FleetSite(AdminSite):
    """A site of our own: what other packages register for themselves does not appear in it."""

    site_header = site_title = "PD control plane"
    index_title = "Records"
    login_form = SignInForm
    # Without Django's "recent actions", which know of accounts only: what people did is in the events and the audit.
    index_template = "admin/controlplane/index.html"

    def has_permission(self, request: HttpRequest) -> bool:
        return role_on(request) >= Role.VIEWER

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        role = role_on(request)
        return {**super().each_context(request), "role": role.name.lower() if role else ""}

    def get_urls(self) -> list[Any]:
        rank = "controlplane/rank/"
        own = [
            path(rank, self._page(ranks.listing, "GET", "HEAD", "POST"), name="controlplane_rank_changelist"),
            path(
                f"{rank}<str:instance>/<int:launch>/<str:slot>/",
                self._page(ranks.detail, "GET", "HEAD"),
                name="controlplane_rank_detail",
            ),
            path("act/<slug:name>/", self._page(acting.act, "GET", "HEAD", "POST"), name="act"),
        ]
        return [*own, *super().get_urls()]

    def _page(self, view: Callable[..., HttpResponse], *methods: str) -> Any:
        return self.admin_view(require_http_methods(list(methods))(partial(view, self)))

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Sections instead of Django's applications; with a label, those of one application's models."""
        models = {
            model["object_name"]: model
            for app in self._build_app_dict(request, app_label).values()
            for model in ([app] if "object_name" in app else app["models"])
        }
        if app_label in (None, "controlplane"):
            rank = ranks.in_index(request, reverse("admin:controlplane_rank_changelist"))
            if rank is not None:
                models["Rank"] = rank
        sections = []
        for title, names in SECTIONS:
            sections.append(_section(title, [models.pop(name) for name in names if name in models]))
        sections.append(_section(OTHER, [models[name] for name in sorted(models)]))
        return [section for section in sections if section["models"]]

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> TemplateResponse:
        return super().app_index(request, app_label, {"title": self.index_title, **(extra_context or {})})


def _section(title: str, models: Sequence[Any]) -> dict[str, Any]:
    slug = slugify(title)
    # The first row of each section has an id of this form, so that its heading can lead to it.
    first = models[0]["object_name"].lower() if models else ""
    return {
        "name": title,
        "app_label": slug,
        "app_url": f"{reverse('admin:index')}#{slug}-{first}",
        "has_module_perms": True,
        "models": list(models),
    }
