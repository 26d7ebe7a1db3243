"""One instance: how it stands, its ranks in a grid, its launches, and what else is known of it, a tab each."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import path

from controlplane.domain.errors import Refused
from controlplane.queries import closeup
from controlplane.queries.attention import observed_of
from controlplane.queries.closeup import CloseUp
from dashboard.page import PARTS_HEADER, Page, Part
from dashboard.presenters.facts import facts, tabs
from dashboard.presenters.instance_query import Asked
from dashboard.views import instance_tabs
from dashboard.views.instance_ranks import pane_context, ranks_context

OF_RANKS = (
    "rank.",
    "launch.",
    "health.",
    "instance.",
    "intent.",
    "drain.",
    "breaker.",
    "gateway.",
    "router.",
    "engine.turned",
)
OF_WHY = (*OF_RANKS, "engine.", "listener.", "observation.", "registration.", "leader.")
SAID = 3
"""Sentences of an instance's story that are always in sight; the rest is a click away."""


class InstancePage(Page):
    template = "dashboard/instance/page.html"
    place = "overview"
    parts = {
        "head": Part("dashboard/instance/head.html", on=(*OF_RANKS, "engine.", "request.", "listener.")),
        "ranks": Part("dashboard/instance/ranks.html", on=OF_RANKS),
        # No part that is seen: whoever asks for it with `ranks` gets the cells drawn.
        "cells": Part("dashboard/instance/cells.html", on=()),
        "pane": Part("dashboard/instance/pane.html", on=OF_RANKS),
        "why": Part("dashboard/instance/why.html", on=OF_WHY),
        "launches": Part("dashboard/instance/launches.html", on=("rank.", "launch.", "instance.")),
        "rooms": Part("dashboard/instance/rooms.html", on=("launch.",), hold_new=True),
        "engine-info": Part("dashboard/instance/engine.html", on=("engine.",), hold_new=True),
        "pairs": Part("dashboard/instance/pairs.html", on=OF_RANKS),
        "events": Part("dashboard/instance/events.html", on=("*",), hold_new=True),
    }

    @property
    def name(self) -> str:
        return str(self.kwargs["name"])

    def title(self) -> str:
        return self.name

    def about(self) -> str:
        return self.name

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        asked = Asked.read(self.request.GET)
        seen = closeup.look(self.name, now=self.now)
        context: dict[str, Any] = {"seen": seen, "row": seen.instance, "asked": asked, "tab": asked.tab}
        if "head" in wanted:
            context |= self._head(seen)
        if "ranks" in wanted and asked.tab == "ranks":
            drawn = PARTS_HEADER not in self.request.headers or "cells" in wanted
            context |= ranks_context(seen, asked, drawn=drawn, now=self.now)
        if "pane" in wanted and asked.tab == "ranks":
            context |= pane_context(seen, asked)
        if asked.tab == "pairs" and self.who.instance:
            raise Refused(f"{self.who.name} is for {self.who.instance} alone; pairs tell of others", code="forbidden")
        if asked.tab in wanted and asked.tab in instance_tabs.CONTEXTS:
            context |= instance_tabs.CONTEXTS[asked.tab](seen, asked, self.now)
        return context

    def _head(self, seen: CloseUp) -> dict[str, Any]:
        groups = seen.row.groups
        return {
            "observed": observed_of(seen.row),
            "tabs": tabs(seen),
            "api_path": f"/api/v1/instances/{self.name}",
            "cli": f"explain {self.name}",
            "serving": sum(group.verdict.routable for group in groups),
            "groups": len(groups),
            "said": seen.story[:SAID],
            "more": seen.story[SAID:],
            "facts": facts(seen, host=settings.PDCP_BOOTSTRAP_HOST, kv_port=settings.PDCP_KV_PORT, now=self.now),
        }


urlpatterns = [path("instances/<name:name>/", InstancePage.as_view(), name="instance")]
