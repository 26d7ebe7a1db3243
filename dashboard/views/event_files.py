"""Events to take away: what the Events page shows, as JSON or CSV."""

from __future__ import annotations

import csv
import datetime
import io
import json
from typing import Any

from django.http import HttpResponse
from django.urls import path

from controlplane.queries.events import EventRow, sentence
from dashboard.page import Page
from dashboard.presenters import sought

from .events import look

MOST = 10_000
COLUMNS = ("revision", "time", "kind", "instance", "actor", "reason", "sentence", "data")
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


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
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        said = _document(row)
        cells = [said[name] if name != "data" else json.dumps(said[name], ensure_ascii=False) for name in COLUMNS]
        writer.writerow([_harmless(cell) for cell in cells])
    if more:
        writer.writerow([f"(only {len(rows)} are in this file; there are older ones)"])
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """Tables take a text that begins like a formula for one, and names and reasons are typed by people.

    >>> _harmless("=1+1"), _harmless("-"), _harmless(7)
    ("'=1+1", "'-", 7)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell


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
