"""The fleet as it was: at a revision or a moment, alone or against another one."""

from __future__ import annotations

from typing import Any

from django.urls import path, reverse

from controlplane.domain.errors import Refused
from controlplane.queries import searching, state, turned
from dashboard.page import Page
from dashboard.presenters.density import utc
from dashboard.presenters.difference import differences
from dashboard.presenters.fleet_then import ranks_then, then
from dashboard.presenters.sought import asking

from .events import number, revision_of

MOST_INSTANCES = 200
MOST_DIFFERENCES = 200
MOST_RANKS = 256
MOST_OTHERS = 50


class FleetThen(Page):
    """It has no parts but the frame: what was, stays as it was."""

    template = "dashboard/events/fleet.html"
    place = "events"

    def title(self) -> str:
        return "Fleet as it was"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        given = self.request.GET
        asked = given.get("as_of", "").strip()
        if not asked:
            raise Refused("say as of when: ?as_of=18240, a revision, or ?as_of=03:11:02, a time", code="malformed")
        revision = revision_of(asked, self.now)
        instance = given.get("instance", "").strip()[:100]
        fleet = turned.fleet_then(revision, instance or None)
        event = searching.event(revision) if revision else None
        behind = searching.newer_than(revision)
        kept = {"as_of": str(revision), "instance": instance}
        context: dict[str, Any] = {
            "as_of": revision,
            "event": event,
            "behind": behind,
            "as_of_more": f"{utc(event.at):%H:%M:%S} · {behind} behind" if event else "",
            "instance": instance,
            "back": reverse("event", args=[revision]) if revision else reverse("events"),
            "alone": asking(kept),
            "against_now": asking(kept, **{"with": "now"}),
            "api_path": f"/api/v1/fleet{asking({'instance': instance})}",
        }
        if given.get("with"):
            return context | self._against(fleet, given["with"].strip(), instance)
        rows = then(fleet)
        ranks = ranks_then(fleet["instances"][instance]) if instance in fleet["instances"] else []
        return context | {
            "ranks": ranks[:MOST_RANKS],
            "more_ranks": max(0, len(ranks) - MOST_RANKS),
            "rows": rows[:MOST_INSTANCES],
            "more": max(0, len(rows) - MOST_INSTANCES),
            "total": len(rows),
            "gateways": sorted(fleet["gateways"].items())[:MOST_OTHERS],
            "more_gateways": max(0, len(fleet["gateways"]) - MOST_OTHERS),
            "routers": sorted(fleet["routers"].items())[:MOST_OTHERS],
            "more_routers": max(0, len(fleet["routers"]) - MOST_OTHERS),
        }

    def _against(self, fleet: dict[str, Any], other: str, instance: str) -> dict[str, Any]:
        if other == "now":
            cursor, later = state.fleet_state(instance or None)
            revision = cursor.revision
        else:
            revision = number(other, "what it is compared with") or 0
            later = turned.fleet_then(revision, instance or None)
        return {
            "against": revision,
            "is_now": other == "now",
            "found": differences(fleet, later, most=MOST_DIFFERENCES),
        }


urlpatterns = [path("events/fleet/", FleetThen.as_view(), name="fleet-then")]
