"""Activity: what goes through the control plane, as charts with their tables, and the numbers to take away."""

from __future__ import annotations

import csv
import io
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from controlplane.queries import series
from dashboard.page import Page, Part
from dashboard.presenters.activity import head_of
from dashboard.presenters.charts import SERIES, charts_of
from dashboard.presenters.spans import moment, span_of

TABLE_POINTS = 24


class Activity(Page):
    template = "dashboard/activity/page.html"
    place = "activity"
    # No event tells of a sample: `charts.js` asks again by the clock.
    parts = {"charts": Part("dashboard/activity/charts.html", on=())}

    def title(self) -> str:
        return "Activity"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        span = span_of(self.request.GET, now=self.now)
        fine = series.series(SERIES, since=span.since, until=span.until)
        coarse = series.series(SERIES, since=span.since, until=span.until, points=TABLE_POINTS)
        charts = charts_of(fine, coarse)
        return {
            "charts": charts,
            "head": head_of(span, fine, charts, now=self.now),
            "since": fine.since,
            "step": fine.step,
            "span": span,
        }


class Numbers(Page):
    """Every series of the same time, as finely as it is kept."""

    place = "activity"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        span = span_of(request.GET, now=self.now)
        rows = series.series(tuple(series.NAMES), since=span.since, until=span.until)
        response: HttpResponse
        if kwargs["kind"] == "json":
            response = JsonResponse(
                {
                    "since": rows.since,
                    "step_seconds": rows.step,
                    "sampled_at": rows.sampled_at,
                    "series": {name: list(values) for name, values in rows.values.items()},
                }
            )
        else:
            file = io.StringIO()
            lines = csv.writer(file)
            lines.writerow(["from", "step_seconds", *rows.values])
            for point, numbers in enumerate(zip(*rows.values.values(), strict=True)):
                lines.writerow([moment(rows.at(point)), f"{rows.step:g}", *numbers])
            response = HttpResponse(file.getvalue(), content_type="text/csv")
        response["Content-Disposition"] = f'attachment; filename="activity.{kwargs["kind"]}"'
        response["Cache-Control"] = "no-store"
        return response


urlpatterns = [
    path("activity/", Activity.as_view(), name="activity"),
    path("activity.json", Numbers.as_view(), {"kind": "json"}, name="activity-json"),
    path("activity.csv", Numbers.as_view(), {"kind": "csv"}, name="activity-csv"),
]
