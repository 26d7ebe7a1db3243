"""Pairs: every prefill with every decode, the reason in the cell, and one pair fact by fact."""

from __future__ import annotations

from typing import Any

from django.urls import path

from controlplane.domain.decodes import Decode
from controlplane.queries import pair_traffic
from controlplane.queries.matrix import Asked, Chosen, Matrix, matrix
from dashboard.page import Page, Part
from dashboard.presenters.describing import described, written
from dashboard.presenters.pair_facts import fact_views, flag_of, mapping_lines
from dashboard.presenters.pairs import DESCRIBED, row_views, side_view, verdict_sentence, verdict_tone

WHAT_MATTERS = ("launch.", "rank.left", "instance.", "health.", "intent.", "breaker.", "gateway.", "router.", "leader.")
BUSIEST = 8
KEPT = ("q", "only", "from_prefill", "from_decode")
"""What of the query stays when another pair is chosen; the description of a decode stays too."""


class Pairs(Page):
    """`?prefill=a&decode=b` is one pair in full; `as.tp_size=4` and so on describe a decode that never registered."""

    template = "dashboard/pairs/page.html"
    parts = {
        "head": Part("dashboard/pairs/head.html", on=WHAT_MATTERS),
        "matrix": Part("dashboard/pairs/matrix.html", on=WHAT_MATTERS),
        "pair": Part("dashboard/pairs/pair.html", on=WHAT_MATTERS),
        "traffic": Part("dashboard/pairs/traffic.html", on=("gateway.",)),
    }
    place = "pairs"

    def title(self) -> str:
        return "Pairs"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        query = {name: self.request.GET[name] for name in self.request.GET}
        context: dict[str, Any] = {"minutes": pair_traffic.LATELY_MINUTES}
        if wanted & {"head", "matrix", "pair"}:
            asked = asked_of(query)
            context |= self._matrix(query, matrix(asked, now=self.now), asked.posted)
        if "traffic" in wanted:
            context |= {"busiest": pair_traffic.busiest(now=self.now, limit=BUSIEST), "most": BUSIEST}
        return context

    def _matrix(self, query: dict[str, str], found: Matrix, posted: Decode | None) -> dict[str, Any]:
        shown = [[row.name for row in axis.rows] for axis in (found.prefills, found.decodes)]
        if found.chosen is not None:
            shown = [[*shown[0], found.chosen.pair.prefill], [*shown[1], found.chosen.pair.decode]]
        traffic = pair_traffic.traffic(*shown, now=self.now)
        kept = [(name, text) for name, text in query.items() if text and (name in KEPT or name.startswith("as."))]
        return {
            "found": found,
            "columns": [side_view(row) for row in found.decodes.rows],
            "rows": row_views(found, traffic, kept, posted),
            "query": query,
            "q": query.get("q", "").strip(),
            "problems": query.get("only") == "problems",
            "kept": kept,
            "described_as": DESCRIBED,
            "form": written(query),
            **(_pane(found.chosen, traffic) if found.chosen is not None else {}),
        }


def _pane(chosen: Chosen, traffic: dict[tuple[str, str], Any]) -> dict[str, Any]:
    pair = chosen.pair
    head, sentence = verdict_sentence(chosen)
    return {
        "pair": pair,
        "prefill": side_view(chosen.prefill),
        "decode": side_view(chosen.decode) if chosen.decode is not None else None,
        "tone": verdict_tone(chosen),
        "say_head": head,
        "say": sentence,
        "flag": flag_of(pair.compatibility),
        "facts": fact_views(chosen.facts, chosen.said, pair.compatibility),
        "mapping": mapping_lines(chosen.facts, chosen.said) if chosen.facts is not None else [],
        "flow": traffic.get((pair.prefill, pair.decode)),
    }


def asked_of(query: dict[str, str]) -> Asked:
    """Raises Refused (malformed)."""
    return Asked(
        text=query.get("q", "").strip(),
        problems=query.get("only") == "problems",
        from_prefill=query.get("from_prefill", ""),
        from_decode=query.get("from_decode", ""),
        prefill=query.get("prefill", ""),
        decode=query.get("decode", ""),
        posted=described(query),
    )


urlpatterns = [path("pairs/", Pairs.as_view(), name="pairs")]
