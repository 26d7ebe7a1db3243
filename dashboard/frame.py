"""What stands around every page: the environment, the way around, who is signed in, and how our own processes do."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from controlplane.access.roles import ADMINISTER, Who
from controlplane.ledger.position import Position
from controlplane.queries import badges

THEMES = ("auto", "light", "dark")
ZONES = ("utc", "local")


@dataclass(frozen=True, slots=True)
class Place:
    """One line of the navigation. `key`: what a page calls its place, and the letter after `g` that leads there."""

    key: str
    letter: str
    name: str
    icon: str
    route: str
    count: int = 0
    counts: str = ""

    @property
    def url(self) -> str:
        return reverse(self.route)


PLACES: Sequence[Sequence[Place]] = (
    (
        Place("overview", "o", "Overview", "home", "overview"),
        Place("alarms", "l", "Alarms", "bell", "alarms", counts="that nobody looks after"),
    ),
    (
        Place("rooms", "r", "Rooms", "rooms", "rooms"),
        Place("pairs", "p", "Pairs", "pairs", "pairs"),
        Place("drains", "d", "Drains", "drain", "drains", counts="blocked"),
        Place("weights", "w", "Weights", "weights", "weights", counts="in conflict"),
        Place("gateways", "t", "Gateways", "gw", "gateways", counts="in trouble"),
    ),
    (
        Place("events", "e", "Events", "events", "events"),
        Place("activity", "a", "Activity", "chart", "activity"),
        Place("clockwork", "c", "Clockwork", "clock", "clockwork"),
    ),
    (Place("tokens", "k", "Tokens", "shield", "tokens"),),
)


def frame(
    request: HttpRequest, who: Who, now: float, cursor: Position, *, title: str, place: str, about: str
) -> dict[str, Any]:
    """The context of the base template and of the part `frame`. Asks a constant number of queries."""
    counted = badges.badges(now=now)
    counts = {
        "alarms": counted.new_alarms,
        "drains": counted.blocked_drains,
        "weights": counted.engine_conflicts,
        "gateways": counted.in_trouble,
    }
    theme = request.COOKIES.get("pdcp_theme", "auto")
    zone = request.COOKIES.get("pdcp_zone", "utc")
    return {
        "title": title,
        "place": place,
        "places": [[(place, counts.get(place.key, 0)) for place in group] for group in PLACES],
        "processes": counted.processes,
        "cursor": str(cursor),
        "revision": cursor.revision,
        "about": about,
        "site_kind": settings.PDCP_SITE_KIND,
        "site_name": settings.PDCP_SITE_NAME,
        "theme": theme if theme in THEMES else "auto",
        "zone": zone if zone in ZONES else "utc",
        "administers": who.may(ADMINISTER),
        "role": who.role.name.lower(),
        "utc": datetime.datetime.fromtimestamp(now, datetime.UTC),
    }
