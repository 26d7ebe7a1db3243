"""Events to take away: what the Events page shows, as JSON or CSV."""

from __future__ import annotations

import datetime
import json
from typing import Any

from django.http import HttpResponse
from django.urls import path

from controlplane.queries.events import EventRow, sentence
from dashboard.page import Page
from dashboard.presenters import sought
from dashboard.presenters.sheets import sheet

from .events import look

MOST = 10_000
COLUMNS = ("revision", "time", "kind", "instance", "actor", "reason", "sentence", "data")


class EventFile(Page):
    """At most 10,000 events, the newest first; the file says whether there are more."""

    place = "events"

    def get(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        asked = sought.read({key: str(value) for key, value in request.GET.items()}, self.now)
        found = look(asked, limit=MOST)
        rows, more = found.items, found.older is not None
        name = f"events-{found.head.revision}.{kwargs['form']}"
        if kwargs["form"] == "json":
            document = {
                "ledger": found.head.ledger_id,
                "revision": found.head.revision,
                "more": more,
                "looked_from": found.looked_from,
                "items": [_document(row) for row in rows],
            }
            response = HttpResponse(json.dumps(document, ensure_ascii=False), content_type="application/json")
        else:
            response = HttpResponse(_csv(rows, more=more), content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Cache-Control"] = "no-store"
        response["X-PDCP-More"] = "yes" if more else "no"
        return response


def _csv(rows: tuple[EventRow, ...], *, more: bool) -> str:
    said = (_document(row) for row in rows)
    cells = (
        [one[name] if name != "data" else json.dumps(one[name], ensure_ascii=False) for name in COLUMNS] for one in said
    )
    return sheet(COLUMNS, cells, more=f"only {len(rows)} are in this file; there are older ones" if more else "")


def _document(row: EventRow) -> dict[str, Any]:
    moment = datetime.datetime.fromtimestamp(row.at, datetime.UTC)
    return {
        "revision": row.revision,
        "at": row.at,
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kind": row.kind,
        "instance": row.instance,
        "actor": row.actor,
        "reason": row.reason,
        "sentence": sentence(row),
        "data": row.data,
    }


urlpatterns = [
    path("events/export.json", EventFile.as_view(), {"form": "json"}, name="events-json"),
    path("events/export.csv", EventFile.as_view(), {"form": "csv"}, name="events-csv"),
]
