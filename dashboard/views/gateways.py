"""Who chooses workers: gateways of ours, and real routers that are kept in step; and one of them in detail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.urls import path

from controlplane.domain.errors import Refused
from controlplane.domain.names import NAME
from controlplane.queries import gateways, reported, routers
from dashboard.page import Page, Part
from dashboard.presenters import gateways as say

AT_ONCE = 100
LATELY_MINUTES = 5
OUTCOME_MINUTES = 15
STATES = ("present", "silent", "left")
LONGEST = 100
CHOOSERS = ("gateway.", "router.", "breaker.")
Row = TypeVar("Row")


class Choosers(Page):
    """What these pages read from their URL."""

    place = "gateways"

    def asked(self, name: str) -> str:
        given = self.request.GET.get(name, "").strip()
        if len(given) > LONGEST or not given.isprintable():
            raise Refused(f"{name} is at most {LONGEST} characters that can be printed", code="malformed")
        return given

    def named(self, what: str) -> str:
        """The name in the path, if one can be called so: no database is asked for anything else."""
        name = str(self.kwargs["name"])
        if not NAME.fullmatch(name):
            raise Refused(f"no {what} is called like that", code="not_found")
        return name

    def page_of(self, rows: Sequence[Row], name: Callable[[Row], str], after: str) -> tuple[Sequence[Row], str]:
        """At most AT_ONCE rows in the order of their names, and after which one to go on; blank at the end."""
        # By code points as the cursor compares, whatever order of letters the database has.
        rest = sorted((row for row in rows if name(row) > after), key=name)
        return rest[:AT_ONCE], name(rest[AT_ONCE - 1]) if len(rest) > AT_ONCE else ""


class Gateways(Choosers):
    template = "dashboard/gateways/page.html"
    parts = {
        "gateways": Part("dashboard/gateways/gateways.html", on=("gateway.", "breaker."), hold_new=True),
        "routers": Part("dashboard/gateways/routers.html", on=("router.",), hold_new=True),
    }

    def title(self) -> str:
        return "Gateways"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        words, state = self.asked("q"), self.asked("state")
        if state and state not in STATES:
            raise Refused(f"state is one of {', '.join(STATES)}", code="malformed")
        context: dict[str, Any] = {"words": words, "state": state, "states": STATES, "lately": LATELY_MINUTES}
        if "gateways" in wanted:
            found = [row for row in gateways.listing(left=state == "left") if words.lower() in row.name.lower()]
            found = [row for row in found if not state or row.state(self.now) == state]
            rows, after = self.page_of(found, lambda row: row.name, self.asked("after"))
            ended = reported.outcomes_by_gateway(since_minute=int(self.now // 60) - LATELY_MINUTES)
            context |= {
                "gateways": say.gateway_lines(rows, reported.open_by_gateway(), ended, now=self.now),
                "count": len(found),
                "silent": sum(row.silent(self.now) for row in found),
                "next": after,
            }
        if "routers" in wanted:
            known = [row for row in routers.listing() if words.lower() in row.name.lower()]
            shown, after = self.page_of(known, lambda row: row.name, self.asked("router_after"))
            context |= {"routers": list(map(say.router_line, shown)), "router_count": len(known), "next_router": after}
        return context


class OneGateway(Choosers):
    template = "dashboard/gateways/gateway.html"
    parts = {
        "head": Part("dashboard/gateways/gateway_head.html"),
        "waiting": Part("dashboard/gateways/waiting.html", on=("drain.", "gateway.")),
        "breakers": Part("dashboard/gateways/breakers.html", on=("breaker.", "gateway.")),
        "open": Part("dashboard/gateways/open.html", on=("drain.", "gateway.")),
        "outcomes": Part("dashboard/gateways/outcomes.html", on=("gateway.",)),
    }

    def title(self) -> str:
        return f"Gateway {self.kwargs['name']}"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        row = gateways.gateway(self.named("gateway"))
        state = row.state(self.now)
        short, why = say.gateway_short(row, state)
        context: dict[str, Any] = {"row": row, "name": row.name, "state": state, "short": short, "why": why}
        context |= {"api_path": f"/api/v1/gateways/{row.name}", "minutes": OUTCOME_MINUTES}
        if "waiting" in wanted:
            context["drains"] = reported.waited_for(f"gateway {row.name}")
        if "breakers" in wanted:
            context |= _cut("breakers", reported.breakers(row.name), reported.MOST_ROWS)
        if "open" in wanted:
            context |= _cut("open", reported.open_rooms(row.name), reported.MOST_ROWS)
        if "outcomes" in wanted:
            since = int(self.now // 60) - OUTCOME_MINUTES
            context |= _cut("outcomes", reported.outcomes(row.name, since_minute=since), reported.MOST_PAIRS)
            context["outcomes"] = [(pair, say.outcomes_text(pair.counts)) for pair in context["outcomes"]]
        return context


class OneRouter(Choosers):
    template = "dashboard/gateways/router.html"
    parts = {
        "head": Part("dashboard/gateways/router_head.html", on=("router.", "breaker.")),
        "waiting": Part("dashboard/gateways/waiting.html", on=("drain.", "router.")),
        "members": Part("dashboard/gateways/members.html", on=("router.", "intent.", "drain.", "health.", "instance.")),
        "breakers": Part("dashboard/gateways/breakers.html", on=("breaker.", "router.")),
    }

    def title(self) -> str:
        return f"Router {self.kwargs['name']}"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        row = routers.router(self.named("router"))
        short, why = say.router_short(row)
        context: dict[str, Any] = {"row": row, "name": row.name, "line": say.router_line(row)}
        context |= {"short": short, "why": why, "api_path": f"/api/v1/routers/{row.name}"}
        if "waiting" in wanted:
            context["drains"] = reported.waited_for(f"router {row.name}")
        if "members" in wanted:
            show = self.asked("show")
            if show not in ("", "out"):
                raise Refused("show is out, for those that are not as listed, or nothing", code="malformed")
            found = [one for one in row.members if not show or say.unlike_its_list(one)]
            shown, after = self.page_of(found, lambda one: one.instance, self.asked("after"))
            context |= {"members": say.member_lines(shown), "show": show, "next": after}
            context["out"] = sum(map(say.unlike_its_list, row.members))
        if "breakers" in wanted:
            context |= _cut("breakers", reported.breakers(f"router:{row.name}"), reported.MOST_ROWS)
        return context


def _cut(name: str, rows: Sequence[Any], most: int) -> dict[str, Any]:
    return {name: rows[:most], f"more_{name}": len(rows) > most, f"most_{name}": most}


urlpatterns = [
    path("gateways/", Gateways.as_view(), name="gateways"),
    path("gateways/<str:name>/", OneGateway.as_view(), name="gateway"),
    path("routers/<str:name>/", OneRouter.as_view(), name="router"),
]
