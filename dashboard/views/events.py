"""Events."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Events(Page):
    template = "dashboard/events/page.html"
    place = "events"

    def title(self) -> str:
        return "Events"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("events/", Events.as_view(), name="events")]
