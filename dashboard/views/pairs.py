"""Pairs."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Pairs(Page):
    template = "dashboard/pairs/page.html"
    place = "pairs"

    def title(self) -> str:
        return "Pairs"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("pairs/", Pairs.as_view(), name="pairs")]
