"""The overview: what needs a person, the fleet in numbers, and every instance in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.urls import path

from controlplane.access.roles import OPERATE
from controlplane.domain.errors import Refused
from controlplane.queries import attention, overview, series
from controlplane.queries.overview import ROLES, Wanted
from controlplane.queries.routable import RoutableRow
from controlplane.queries.totals import Totals, totals
from dashboard.page import Page, Part
from dashboard.presenters import search
from dashboard.presenters.attention import attention_view
from dashboard.presenters.counters import SERIES, counters
from dashboard.presenters.instances import instance_view
from dashboard.presenters.search import asked_for, query_of

from . import overview_files

SHOWN = 12
"""So many concerns are shown at first, so that the fleet is not pushed out of sight."""

ALL = 200

BULK = (("cordon", "Cordon"), ("uncordon", "Uncordon"), ("drain", "Drain"), ("reregister", "Re-register"))
"""What can be done with several instances at once."""


class Overview(Page):
    template = "dashboard/overview/page.html"
    place = "overview"
    parts = {
        "export": Part("dashboard/overview/_export.html", on=()),
        "attention": Part("dashboard/overview/_attention.html"),
        "counters": Part("dashboard/overview/_counters.html"),
        "instances": Part("dashboard/overview/_instances.html", hold_new=True),
    }

    def title(self) -> str:
        return "Overview"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        asked = asked_for(self.request.GET)
        scene = attention.scene(now=self.now)
        rows = scene.weighed.rows
        total = totals(rows)
        said: dict[str, Any] = {
            "nobody": not total.instances and not self.request.GET.get("q"),
            "leads": scene.weighed.fleet.leader.leads(self.now),
            "led_at": scene.weighed.fleet.leader.stamp or None,
            "acts": self.who.may(OPERATE),
            "asked": asked,
            "q": self.request.GET.get("q", ""),
            "query": query_of(self.request.GET),
        }
        if "attention" in wanted:
            said["attention"] = attention_view(attention.attention(scene, now=self.now, limit=self._most()))
            said |= {
                "all_url": query_of(self.request.GET, attention="all"),
                "asked_all": self._most() == ALL,
                "most": min(ALL, said["attention"].total),
            }
        if "counters" in wanted and not said["nobody"]:
            samples = series.recent(SERIES, now=self.now)
            said["counters"] = counters(total, scene, samples, now=self.now)
        if "instances" in wanted:
            said |= self._empty(scene, total) if said["nobody"] else self._list(rows, asked, total)
        return said

    def _most(self) -> int:
        asked = self.request.GET.get("attention", "")
        if asked not in ("", "all"):
            raise Refused("attention is `all`, or left away", code="malformed")
        return ALL if asked else SHOWN

    def _list(self, rows: Sequence[RoutableRow], asked: Wanted, total: Totals) -> dict[str, Any]:
        page = overview.listing(rows, asked)
        given = self.request.GET
        q = given.get("q", "")
        return {
            "list": page,
            "total": total,
            "instances": [instance_view(row, now=self.now) for row in page.rows],
            "last": page.first + len(page.rows) - 1,
            "next_url": query_of(given, after=page.next, before="") if page.next else "",
            "previous_url": query_of(given, before=page.previous, after="") if page.previous else "",
            "sorts": {key: self._sort(asked.sort, key) for key in overview.ORDERS},
            "roles": [
                (role, total.roles.get(role, 0), f"role:{role}" in q.split(), self._with(q=search.with_role(q, role)))
                for role in ROLES
                if total.roles.get(role) or f"role:{role}" in q.split()
            ],
            "retired_url": query_of({}, q="state:retired"),
            "bulk": BULK,
        }

    def _with(self, **words: str) -> str:
        return query_of(self.request.GET, after="", before="", **words)

    def _sort(self, now: str, key: str) -> tuple[str, str]:
        """`aria-sort` of a column, and where a click on it leads."""
        direction = {key: "ascending", f"-{key}": "descending"}.get(now, "none")
        return direction, self._with(sort=f"-{key}" if now == key else key)

    def _empty(self, scene: attention.Scene, total: Totals) -> dict[str, Any]:
        host = self.request.get_host().rsplit(":", 1)[0]
        return {
            "refusal": max(scene.refusals, key=lambda one: one.at, default=None),
            "base": self.request.build_absolute_uri("/").rstrip("/"),
            "host": host,
            "bind": settings.PDCP_BOOTSTRAP_HOST,
            "kv_port": settings.PDCP_KV_PORT,
            "engine_port": settings.PDCP_ENGINE_INFO_PORT,
            "local": settings.PDCP_BOOTSTRAP_HOST in ("127.0.0.1", "::1", "localhost"),
            "total_retired": total.retired,
        }


urlpatterns = [
    path("", Overview.as_view(), name="overview"),
    path("instances.csv", overview_files.CsvFile.as_view(), name="instances-csv"),
    path("instances.json", overview_files.JsonFile.as_view(), name="instances-json"),
]
