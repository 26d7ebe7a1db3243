"""The palette (Ctrl+K) and the list of keys: pieces of HTML that every page fetches when somebody asks for them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path

from controlplane.access.roles import OPERATE
from controlplane.queries import finding
from dashboard.frame import PLACES
from dashboard.page import Page
from dashboard.presenters import palette
from dashboard.presenters.palette import Going


class Palette(Page):
    """`?q=…`: the lines that fit. Without: the dialog itself, with what there is to begin with."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        text = request.GET.get("q", "")[: finding.LONGEST].replace("\x00", "")
        _, sought = palette.verb_of(text)
        found = palette.lines(text, finding.find(sought), goings(), operates=self.who.may(OPERATE))
        template = "dashboard/palette/lines.html" if "q" in request.GET else "dashboard/palette/dialog.html"
        return _piece(render(request, template, {"lines": found, "text": text}))


class Keys(Page):
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return _piece(render(request, "dashboard/palette/keys.html", {"goings": goings()}))


def goings() -> tuple[Going, ...]:
    return tuple(Going(place.name, place.icon, place.url, place.letter) for group in PLACES for place in group)


def _piece(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "no-store"
    return response


urlpatterns = [
    path("palette/", Palette.as_view(), name="palette"),
    path("palette/keys/", Keys.as_view(), name="keys"),
]
