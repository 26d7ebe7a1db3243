"""Activity."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Activity(Page):
    template = "dashboard/activity/page.html"
    place = "activity"

    def title(self) -> str:
        return "Activity"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("activity/", Activity.as_view(), name="activity")]
