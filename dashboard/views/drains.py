"""Drains."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Drains(Page):
    template = "dashboard/drains/page.html"
    place = "drains"

    def title(self) -> str:
        return "Drains"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("drains/", Drains.as_view(), name="drains")]
