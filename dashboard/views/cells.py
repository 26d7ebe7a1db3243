"""Cells of a grid that is on screen, as JSON: those that an event touched, or all of them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.queries import cells, fleet, history
from dashboard.page import Page
from dashboard.presenters.deltas import deltas
from dashboard.presenters.instance_query import Asked


class Cells(Page):
    """`?show=` and `?dp=` as the page has them; `?slots=0.0.3.0,0.0.4.0` for these alone."""

    def about(self) -> str:
        return str(self.kwargs["name"])

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        asked = Asked.read(request.GET)
        slots = _slots(request.GET.get("slots", ""))
        with fleet.snapshot():
            revision = history.head_position().revision
            _, launches = cells.of_instance(self.about(), now=self.now, slots=slots, show=asked.show)
        answer = JsonResponse({"revision": revision, **deltas(launches, slots=slots, first_dp=asked.first_dp)})
        answer["Cache-Control"] = "no-store"
        return answer


def _slots(text: str) -> tuple[Slot, ...]:
    """
    >>> _slots("0.0.3.0,1.0.0.0")
    (Slot(dp=0, cp=0, tp=3, pp=0), Slot(dp=1, cp=0, tp=0, pp=0))
    """
    found = []
    for word in text.split(",") if text else ():
        numbers = word.split(".")
        if len(numbers) != 4 or not all(n.isascii() and n.isdigit() and len(n) <= 5 for n in numbers):
            raise Refused("slots are numbers such as 0.0.3.0, one for each of dp, cp, tp and pp", code="malformed")
        found.append(Slot(*map(int, numbers)))
    return tuple(found)


urlpatterns = [path("instances/<name:name>/cells", Cells.as_view(), name="instance-cells")]
