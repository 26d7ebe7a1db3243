"""The clockwork: what runs because time passes, when it ran last, how that ended, and who runs it."""

from __future__ import annotations

from typing import Any

from django.urls import path

from controlplane.queries import badges, clockwork
from dashboard.page import Page, Part
from dashboard.presenters import clockwork as say
from dashboard.presenters.sheets import sheet
from dashboard.views.sheets import Sheet


class Clockwork(Page):
    template = "dashboard/clockwork/page.html"
    place = "clockwork"
    # Rounds are not in the ledger: these parts are asked for again by the clock.
    parts = {
        "tasks": Part("dashboard/clockwork/tasks.html", on=()),
        "processes": Part("dashboard/clockwork/processes.html", on=()),
        "failures": Part("dashboard/clockwork/failures.html", on=()),
    }

    def title(self) -> str:
        return "Clockwork"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        context: dict[str, Any] = {}
        rows = clockwork.listing() if wanted & {"tasks", "processes"} else ()
        if "tasks" in wanted:
            short, why = say.in_short(rows, now=self.now)
            context |= {"tasks": say.task_lines(rows, now=self.now), "short": short, "why": why}
        if "processes" in wanted:
            own = badges.badges(now=self.now).processes
            context["lines"] = say.process_lines(own, clockwork.runners(rows), now=self.now)
        if "failures" in wanted:
            titles = {key: title for key, (title, _) in clockwork.schedule().items()}
            found = clockwork.failures(limit=clockwork.MOST_FAILURES + 1)
            shown = found[: clockwork.MOST_FAILURES]
            context["failures"] = [(row, titles.get(row.task, row.task)) for row in shown]
            context["more_failures"] = len(found) > len(shown)
        return context


class TasksSheet(Sheet):
    name = "clockwork"

    def text(self) -> str:
        columns = ["task", "does", "standing", "every_seconds", "began_at", "ended_at", "outcome", "took_seconds"]
        columns += ["due_at", "round", "failures", "error", "ran_by", "sent_by"]
        return sheet(
            columns,
            (
                [
                    row.key,
                    row.title,
                    row.standing(self.now),
                    row.every,
                    row.began_at,
                    row.ended_at,
                    row.outcome,
                    row.took,
                    row.due_at,
                    row.number,
                    row.failures,
                    row.error,
                    row.ran_by,
                    row.sent_by,
                ]
                for row in clockwork.listing()
            ),
        )


urlpatterns = [
    path("clockwork/", Clockwork.as_view(), name="clockwork"),
    path("clockwork.csv", TasksSheet.as_view(), name="clockwork-csv"),
]
