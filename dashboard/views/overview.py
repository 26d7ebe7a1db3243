"""Overview."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Overview(Page):
    template = "dashboard/overview/page.html"
    place = "overview"

    def title(self) -> str:
        return "Overview"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("", Overview.as_view(), name="overview")]
