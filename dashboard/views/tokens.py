"""Tokens."""

from typing import Any

from django.urls import path

from dashboard.page import Page


class Tokens(Page):
    template = "dashboard/tokens/page.html"
    place = "tokens"

    def title(self) -> str:
        return "Tokens"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}


urlpatterns = [path("tokens/", Tokens.as_view(), name="tokens")]
