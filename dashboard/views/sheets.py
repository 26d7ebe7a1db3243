"""Lists of rooms, pairs and weights as CSV, bounded, with a last line that says what was left out."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path

from controlplane.domain.errors import Refused
from controlplane.queries import compatibility, fleet, rooms, weights
from dashboard.page import Page
from dashboard.presenters.sheets import sheet

MOST = 1000


class Sheet(Page):
    """One list; subclasses say what is in it."""

    name = ""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with fleet.snapshot():
            text = self.text()
        response = HttpResponse(text, content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{self.name}.csv"'
        response["Cache-Control"] = "no-store"
        return response

    def text(self) -> str:
        raise NotImplementedError


class PairsSheet(Sheet):
    name = "pairs"

    def text(self) -> str:
        found = compatibility.pairs(now=self.now, limit=MOST)
        columns = [
            "prefill",
            "launch",
            "decode",
            "known_from",
            "outlook",
            "usable",
            "not_routable_because",
            "finding",
            "effect",
        ]
        return sheet(
            columns,
            (
                [
                    row.prefill,
                    row.launch,
                    row.decode,
                    row.known_from,
                    row.compatibility.outlook,
                    row.usable,
                    row.because,
                    told.sentence if (told := row.compatibility.telling) else "",
                    told.effect.value if told else "",
                ]
                for row in found.rows
            ),
            more=f"only {len(found.rows)} of {found.total} pairs are in this file" if found.next else "",
        )


class WeightsSheet(Sheet):
    name = "weights"

    def text(self) -> str:
        found = weights.published(limit=MOST)
        columns = ["instance", "role", "state", "sessions", "expected", "expected_is_known", "missing", "conflicts"]
        columns += ["dictionaries", "tensors", "bytes", "first_at", "last_at"]
        rows = []
        for row in found.rows:
            covered = row.coverage
            ranks = (
                [covered.expected, covered.known, covered.named if covered.missing else ""] if covered else ["", "", ""]
            )
            sums = [row.conflicts, row.bodies, row.tensors, row.total_bytes, row.first_at, row.last_at]
            rows.append([row.name, row.role, row.state, row.sessions, *ranks, *sums])
        return sheet(columns, rows, more=f"only {len(rows)} of {found.total} instances are here" if found.next else "")


class RoomsSheet(Sheet):
    name = "rooms"

    def text(self) -> str:
        instance = self.request.GET.get("instance", "")
        if not instance:
            raise Refused("rooms are listed by instance: ?instance=NAME", code="malformed")
        found = rooms.live_rooms(instance, now=self.now, limit=MOST)
        rows = ([row.room, row.instance, row.dp, row.expires_at] for row in found.rows)
        left = f"only the newest {len(found.rows)} are in this file" if found.next else ""
        return sheet(["room", "instance", "dp_rank", "expires_at"], rows, more=left)


urlpatterns = [
    path("pairs.csv", PairsSheet.as_view(), name="pairs-csv"),
    path("weights.csv", WeightsSheet.as_view(), name="weights-csv"),
    path("rooms.csv", RoomsSheet.as_view(), name="rooms-csv"),
]
