"""Drains: those under way and those that ended, and one in detail: what blocks it, and who could say that it is empty."""

from __future__ import annotations

from typing import Any

from django.urls import path

from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name
from controlplane.queries import draining, drains, gateways
from controlplane.queries.draining import MOST_EVENTS, MOST_RANKS, MOST_ROOMS, Detail
from controlplane.queries.events import sentence
from controlplane.queries.toll import toll
from dashboard.page import Page, Part
from dashboard.presenters import drains as say
from dashboard.presenters.reach import reach
from dashboard.presenters.trail import chart_of

MOST_OPEN = 200
ENDED_AT_ONCE = 50
TOLD = 5
INTENT = ("drain.", "intent.", "instance.")
SENDERS = ("drain.", "gateway.", "router.")


class Drains(Page):
    template = "dashboard/drains/page.html"
    place = "drains"
    parts = {
        "open": Part("dashboard/drains/open.html", on=INTENT, hold_new=True),
        "ended": Part("dashboard/drains/ended.html", on=INTENT, hold_new=True),
    }

    def title(self) -> str:
        return "Drains"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        instance, before = self._instance(), self._before()
        context: dict[str, Any] = {"instance": instance or "", "before": before}
        if "open" in wanted:
            rows = drains.listing(instance=instance, ended=False, limit=MOST_OPEN + 1)
            context |= {"open": list(say.waits(rows[:MOST_OPEN])), "more_open": len(rows) > MOST_OPEN}
        if "ended" in wanted:
            rows = drains.listing(instance=instance, ended=True, before=before, limit=ENDED_AT_ONCE + 1)
            context |= {
                "ended": list(say.waits(rows[:ENDED_AT_ONCE])),
                "older": rows[ENDED_AT_ONCE - 1].id if len(rows) > ENDED_AT_ONCE else None,
            }
        return context | {"most_open": MOST_OPEN}

    def _instance(self) -> str | None:
        given = self.request.GET.get("instance", "").strip()
        if given:
            check_name(given)
        return given or None

    def _before(self) -> int | None:
        given = self.request.GET.get("before", "")
        if given and not (given.isascii() and given.isdigit() and len(given) < 19):
            raise Refused("before is the number of a drain", code="malformed")
        return int(given) if given else None


class OneDrain(Page):
    template = "dashboard/drains/drain.html"
    place = "drains"
    parts = {
        "head": Part("dashboard/drains/head.html", on=INTENT),
        "blocks": Part("dashboard/drains/blocks.html", on=SENDERS),
        "senders": Part("dashboard/drains/senders.html", on=SENDERS),
        "witnesses": Part("dashboard/drains/witnesses.html", on=("drain.",)),
        "trail": Part("dashboard/drains/trail.html", on=("drain.",)),
        "who": Part("dashboard/drains/who.html", on=INTENT),
        "steps": Part("dashboard/drains/steps.html", on=SENDERS),
        "scope": Part("dashboard/drains/scope.html", on=(*INTENT, "launch.", "rank.", "health.", "breaker.")),
        "impact": Part("dashboard/drains/impact.html", on=(*INTENT, "launch.", "health.", "breaker.")),
    }
    detailed = frozenset({"blocks", "senders", "witnesses", "steps"})
    weighed = frozenset({"scope", "impact"})
    row: drains.DrainRow | None = None

    def title(self) -> str:
        return f"Drain of {_short(self.row)}" if self.row else f"Drain {self.kwargs['id']}"

    def about(self) -> str:
        return self.row.instance if self.row else ""

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        row = self.row = drains.drain(self.kwargs["id"])
        context: dict[str, Any] = {
            "row": row,
            "title_of": _short(row),
            "what": row.instance if row.group is None else f"dp{row.group}",
        }
        word, more = say.observed(row)
        context |= {"api_path": f"/api/v1/drains/{row.id}", "cli": f"explain {row.instance}"}
        context |= {"observed": word, "observed_more": more, "short": say.short(row), "why": say.why(row)}
        if wanted & self.detailed:
            context |= self._detail(row)
        if "trail" in wanted:
            lives = max(row.rooms.until, row.rooms.late_until)
            until = lives if lives > self.now and not row.ended else None
            context["chart"] = chart_of(row.trail, since=row.started_at, now=row.ended_at or self.now, until=until)
        if "who" in wanted:
            told = [(event, sentence(event)) for event in draining.story(row)]
            context |= {"told": told[:TOLD], "told_before": told[TOLD:], "cut": len(told) == MOST_EVENTS}
        if wanted & self.weighed and not row.ended:
            found = toll(row.instance, group=row.group, now=self.now)
            context |= {"toll": found, "reach": reach(found.row, row.group, drained=row.progress == "drained")}
        return context

    def _detail(self, row: drains.DrainRow) -> dict[str, Any]:
        # What gateways say now is not what they said of a drain that has ended.
        detail = Detail() if row.ended else draining.detail(row, now=self.now)
        silent = [] if row.ended else [one for one in gateways.listing() if one.silent(self.now)]
        chosen = say.choices(row, detail)
        return {
            "blockers": say.blockers(row, detail, silent),
            "living": detail.living[:MOST_ROOMS],
            "more_living": len(detail.living) > MOST_ROOMS,
            "choices": chosen,
            "stopped": sum(one.stopped for one in chosen),
            "witnesses": [
                (one, say.counts_text(one.reading.counts if one.reading else {})) for one in detail.witnesses
            ],
            "ranks": detail.ranks,
            "unseen_ranks": max(0, detail.ranks - MOST_RANKS),
            "steps": say.steps(row, detail),
            "unwatched": row.unwatched(self.now),
        }


def _short(row: drains.DrainRow) -> str:
    return row.instance if row.group is None else f"{row.instance} dp{row.group}"


urlpatterns = [
    path("drains/", Drains.as_view(), name="drains"),
    path("drains/<int:id>/", OneDrain.as_view(), name="drain"),
]
