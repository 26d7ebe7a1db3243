"""Weights."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Weights(Page):
    template = "dashboard/weights/page.html"
    place = "weights"

    def title(self) -> str:
        return "Weights"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("weights/", Weights.as_view(), name="weights")]
