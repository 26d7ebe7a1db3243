"""Ranks and launches of one instance as CSV, bounded, with a last line that says what was left out."""

from __future__ import annotations

from typing import Any

from django.urls import path

from controlplane.domain.errors import Refused
from controlplane.domain.routable import Fact
from controlplane.queries import cells, fleet
from controlplane.queries.cells import LaunchCells
from dashboard.presenters.grid import MOST_CELLS
from dashboard.presenters.instance_query import Asked
from dashboard.presenters.rank_table import RankLine, table
from dashboard.presenters.sheets import sheet

from .sheets import MOST, Sheet


class OfInstance(Sheet):
    @property
    def instance(self) -> str:
        return str(self.kwargs["name"])

    def about(self) -> str:
        return self.instance


class RanksSheet(OfInstance):
    """Every slot of a launch: the current one, else the candidate, or `?launch=`; narrowed by `?state=`."""

    name = "ranks"

    def text(self) -> str:
        asked = Asked.read(self.request.GET)
        _, launches = cells.of_instance(self.instance, now=self.now, show=asked.show)
        chosen = next((each for each in launches if asked.launch in (None, each.launch.number)), None)
        if chosen is None and asked.launch is not None:
            raise Refused(f"launch {asked.launch} of {self.instance} is not open", code="not_found")
        columns = ["launch", "slot", asked.show, "registration", "health", "intent", "breaker", "address"]
        columns += ["first_at", "seen_at", "left_at", "left_reason", "flags"]
        if chosen is None:
            return sheet(columns, [], more="no launch is open, so nobody sits in a slot")
        found = table(chosen, after=None, only=asked.only, limit=MOST_CELLS)
        more = f"only the first {len(found.lines)} slots are in this file" if found.next else ""
        return sheet(columns, (_rank(chosen, line) for line in found.lines), more=more)


class LaunchesSheet(OfInstance):
    name = "launches"

    def text(self) -> str:
        one, _ = fleet.instance(self.instance, now=self.now)
        found = fleet.launches(one.id, limit=MOST + 1)
        columns = ["launch", "state", "registered", "expected", "topology", "token"]
        columns += ["opened_at", "completed_at", "ended_at", "ended_reason"]
        rows = (
            [
                row.number,
                row.state,
                row.registered if row.ended_at is None else "",
                row.expected,
                str(row.topology),
                row.token or "",
                row.opened_at,
                row.completed_at,
                row.ended_at,
                row.ended_reason,
            ]
            for row in found[:MOST]
        )
        return sheet(columns, rows, more=f"only the newest {MOST} are in this file" if len(found) > MOST else "")


def _rank(chosen: LaunchCells, line: RankLine) -> list[Any]:
    rank, words = line.rank, line.words
    said = [chosen.launch.number, line.key, line.row.cell, *(words[fact] for fact in Fact)]
    if rank is None:
        return [*said, "", "", "", "", "", ""]
    return [*said, rank.address, rank.first_at, rank.seen_at, rank.left_at, rank.left_reason, " ".join(rank.flags)]


urlpatterns = [
    path("instances/<name:name>/ranks.csv", RanksSheet.as_view(), name="ranks-csv"),
    path("instances/<name:name>/launches.csv", LaunchesSheet.as_view(), name="launches-csv"),
]
