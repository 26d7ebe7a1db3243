"""Gateways."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Gateways(Page):
    template = "dashboard/gateways/page.html"
    place = "gateways"

    def title(self) -> str:
        return "Gateways"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("gateways/", Gateways.as_view(), name="gateways")]
