"""Rooms."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Rooms(Page):
    template = "dashboard/rooms/page.html"
    place = "rooms"

    def title(self) -> str:
        return "Rooms"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("rooms/", Rooms.as_view(), name="rooms")]
