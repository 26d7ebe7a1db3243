"""Rooms: where they go, which are alive in an instance, which collided, and all that is known of one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse

from controlplane.queries import evidence, room_ways, rooms
from dashboard.page import PARTS_HEADER, Page, Part
from dashboard.presenters.evidence import (
    LEGEND,
    UNSEEN,
    again_in,
    contacts_text,
    moment_views,
    proven_text,
    rung_views,
    tone_of,
    word_of,
)

WHAT_MATTERS = ("launch.", "instance.", "health.", "intent.", "drain.")
"""Kinds of events that change what can be said of rooms. Rooms themselves are not in the ledger: they come too often."""

LIVING = 100
COLLIDED = 50


class Rooms(Page):
    """Find one by its number; else by prefill, by instance, and what went wrong lately."""

    template = "dashboard/rooms/page.html"
    parts = {
        "ways": Part("dashboard/rooms/ways.html", on=WHAT_MATTERS),
        "collisions": Part("dashboard/rooms/collisions.html", on=(), hold_new=True),
    }
    place = "rooms"

    def title(self) -> str:
        return "Rooms"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        asked = request.GET.get("room", "").strip()
        if asked and PARTS_HEADER not in request.headers:
            return HttpResponseRedirect(reverse("room", args=[evidence.read_room(asked)]))
        return super().get(request, *args, **kwargs)

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        asked = self.request.GET
        instance, text = asked.get("instance", ""), asked.get("q", "").strip()
        context: dict[str, Any] = {"instance": instance, "q": text, "window_s": room_ways.LATELY_SECONDS}
        if "ways" in wanted:
            context["ways"] = room_ways.ways(now=self.now, text=text, after=asked.get("from", ""))
        if "collisions" in wanted:
            before = asked.get("collisions", "")
            context["collisions"] = rooms.collisions(instance=instance, after=before, limit=COLLIDED)
        if instance and PARTS_HEADER not in self.request.headers:
            # As of the moment it was asked for: in a busy fleet such a list is another one a second later.
            before = asked.get("after", "")
            context["living"] = rooms.live_rooms(instance, now=self.now, after=before, limit=LIVING)
        return context


class Room(Page):
    """One room: how far its way is proven, who holds it, who held it before."""

    template = "dashboard/rooms/room.html"
    parts = {"room": Part("dashboard/rooms/evidence.html", on=WHAT_MATTERS)}
    place = "rooms"

    def title(self) -> str:
        return f"Room {self.kwargs['room'][:40]}"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        found = evidence.evidence(evidence.read_room(self.kwargs["room"]), now=self.now)
        return {
            "room": str(found.room),
            "found": found,
            "state": word_of(found.ladder.conclusion, live=found.live),
            "tone": tone_of(found.ladder.conclusion),
            "rungs": rung_views(found.ladder),
            "moments": moment_views(found.timeline),
            "share": settings.PDCP_EVIDENCE_SHARE,
            "proven": proven_text(found.ladder),
            "again": again_in(found.ladder, self.now),
            "legend": LEGEND,
            "unseen": UNSEEN,
            "holders": [
                (holder, contacts_text([seat.contact for seat in holder.seats]), holder.registered - len(holder.seats))
                for holder in found.holders
            ],
            "unlisted": max(0, found.followers - evidence.FOLLOWERS),
        }


urlpatterns = [
    path("rooms/", Rooms.as_view(), name="rooms"),
    path("rooms/<str:room>/", Room.as_view(), name="room"),
]
