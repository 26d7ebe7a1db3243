"""The list of instances to take away: what the overview shows, all pages of it, as JSON or CSV."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from controlplane.queries import fleet, overview
from controlplane.queries.attention import observed_of
from controlplane.queries.memo import weighed
from controlplane.queries.routable import RoutableRow
from controlplane.queries.totals import ready
from dashboard.page import Page
from dashboard.presenters.search import asked_for
from dashboard.presenters.sheets import sheet

MOST = 10_000


class InstancesFile(Page):
    """At most 10,000 instances in the order that is asked for; the file says whether there are more."""

    place = "overview"
    form = ""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with fleet.snapshot():
            found = weighed(now=self.now)
            rows = overview.matching(found.rows, asked_for(request.GET))
        items = [document(row) for row in rows[:MOST]]
        response = self.say(items, found.fleet.ledger_id, found.fleet.revision, more=len(rows) > MOST)
        response["Content-Disposition"] = f'attachment; filename="instances-{found.fleet.revision}.{self.form}"'
        response["Cache-Control"] = "no-store"
        response["X-PDCP-More"] = "yes" if len(rows) > MOST else "no"
        return response

    def say(self, items: list[dict[str, Any]], ledger: str, revision: int, *, more: bool) -> HttpResponse:
        raise NotImplementedError


class JsonFile(InstancesFile):
    form = "json"

    def say(self, items: list[dict[str, Any]], ledger: str, revision: int, *, more: bool) -> HttpResponse:
        said = {"ledger": ledger, "revision": revision, "more": more, "items": items}
        return HttpResponse(json.dumps(said, ensure_ascii=False), content_type="application/json")


class CsvFile(InstancesFile):
    form = "csv"

    def say(self, items: list[dict[str, Any]], ledger: str, revision: int, *, more: bool) -> HttpResponse:
        rows = ([item[name] for name in COLUMNS] for item in items)
        text = sheet(COLUMNS, rows, more=f"only {len(items)} of them are in this file" if more else "")
        return HttpResponse(text, content_type="text/csv; charset=utf-8")


COLUMNS = (
    "name",
    "role",
    "desired",
    "desired_by",
    "desired_reason",
    "observed",
    "routable",
    "because",
    "ready",
    "registered",
    "expected",
    "launch",
    "complete_since",
    "candidate",
    "page_size",
    "kv_cache_dtype",
    "own_port",
    "host_alias",
    "engine_url",
    "observed_url",
)


def document(row: RoutableRow) -> dict[str, Any]:
    """One instance, its columns in the order of COLUMNS."""
    one, current = row.instance, row.instance.current
    facts: Mapping[str, Any] = current.facts if current else {}
    said = (
        one.name,
        one.role,
        one.intent,
        one.intent_actor,
        one.intent_reason,
        observed_of(row),
        row.routable,
        row.verdict.because,
        ready(row),
        one.registered,
        one.expected,
        current.number if current else None,
        _moment(current.completed_at if current else None),
        one.candidate.progress if one.candidate else None,
        facts.get("page_size"),
        facts.get("kv_cache_dtype"),
        one.own_port,
        one.host_alias,
        one.engine_url,
        one.observed_url,
    )
    return dict(zip(COLUMNS, said, strict=True))


def _moment(at: float | None) -> str | None:
    if at is None:
        return None
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
