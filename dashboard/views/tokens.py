"""Tokens: which machines may do what, who made them, when they were last used. For administrators."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.urls import path

from controlplane.access import tokens
from controlplane.access.roles import ADMINISTER
from controlplane.domain.errors import Refused
from dashboard.page import Page, Part
from dashboard.presenters.sought import asking

SHOWN = 200
STATES = ("active", "expired", "orphaned", "revoked")


class Tokens(Page):
    template = "dashboard/tokens/page.html"
    # Uses are no events: they are seen when the page looks again by itself.
    parts = {"tokens": Part("dashboard/tokens/list.html", on=("token.",), hold_new=True)}
    place = "tokens"

    def title(self) -> str:
        return "Tokens"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        if not self.who.may(ADMINISTER):
            return {"may_see": False}
        state, words = self.request.GET.get("state", "active"), self.request.GET.get("q", "").strip()[:100]
        if state not in (*STATES, "all"):
            raise Refused(f"tokens are {', '.join(STATES)} or all, not {state[:40]!r}", code="malformed")
        known = tokens.listing(now=self.now)
        matching = [row for row in known if _matches(row, words)]
        counts = Counter(row.state for row in matching)
        found = [row for row in matching if state in ("all", row.state)]
        return {
            "may_see": True,
            "rows": found[:SHOWN],
            "more": max(0, len(found) - SHOWN),
            "any": bool(known),
            "words": words,
            "state": state,
            "tabs": [
                (name, len(matching) if name == "all" else counts[name], asking({"q": words}, state=name))
                for name in (*STATES, "all")
            ],
        }


def _matches(row: tokens.TokenRow, words: str) -> bool:
    told = " ".join((row.name, row.key, row.instance, row.made_by, *row.verbs)).casefold()
    return all(word in told for word in words.casefold().split())


urlpatterns = [path("tokens/", Tokens.as_view(), name="tokens")]
