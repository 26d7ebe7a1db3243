"""Alarms: those that are open with what to do, those that are over, what the webhook was told; one of them; runbooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import path

from controlplane.commands import alarms as commands
from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name
from controlplane.domain.runbooks import RUNBOOKS
from controlplane.queries import alarms
from controlplane.queries.alarms import AlarmRow
from dashboard.page import Page, Part
from dashboard.presenters import alarms as say
from dashboard.presenters.ages import age_text
from dashboard.presenters.asking import Line
from dashboard.presenters.commands import cli, curl
from dashboard.presenters.sheets import sheet

from .editing import Editing
from .sheets import Sheet

MOST_OPEN = 200
OVER_AT_ONCE = 50
NOTICES = 30
MOST = 1000
ALARM = ("alarm.",)
LONGEST_NUMBER = 18
COLUMNS = (
    *("id", "severity", "status", "state", "instance", "sentence", "why", "next", "count", "since"),
    *("raised_at", "resolved_at", "returns", "acknowledged_by", "acknowledged_reason"),
)


class Asked(Page):
    """What these pages read from their URL."""

    place = "alarms"

    def severity(self) -> str | None:
        given = self.request.GET.get("severity", "")
        if given and given not in alarms.SEVERITIES:
            raise Refused(f"severity is one of {', '.join(alarms.SEVERITIES)}", code="malformed")
        return given or None

    def instance(self) -> str | None:
        given = self.request.GET.get("instance", "").strip()
        if given:
            check_name(given)
        return given or None

    def before(self) -> int | None:
        given = self.request.GET.get("before", "")
        return _number(given) if given else None


class Alarms(Asked):
    template = "dashboard/alarms/page.html"
    parts = {
        "open": Part("dashboard/alarms/open.html", on=ALARM, hold_new=True),
        "post": Part("dashboard/alarms/post.html", on=ALARM),
        "over": Part("dashboard/alarms/over.html", on=ALARM, hold_new=True),
    }

    def title(self) -> str:
        return "Alarms"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        asked: dict[str, Any] = {"severity": self.severity(), "instance": self.instance()}
        context: dict[str, Any] = {**asked, "severities": alarms.SEVERITIES, "before": self.before()}
        if "open" in wanted:
            rows = alarms.listing(status="open", **asked, limit=MOST_OPEN + 1)
            open_ = alarms.worst_first(rows[:MOST_OPEN])
            context |= {"open": say.alarm_views(open_), "more_open": len(rows) > MOST_OPEN, "most_open": MOST_OPEN}
            context["new"] = sum(not row.acknowledged for row in open_)
        if "over" in wanted:
            rows = alarms.listing(status="resolved", **asked, before=context["before"], limit=OVER_AT_ONCE + 1)
            context["over"] = say.alarm_views(rows[:OVER_AT_ONCE])
            context["older"] = rows[OVER_AT_ONCE - 1].id if len(rows) > OVER_AT_ONCE else None
        if "post" in wanted:
            post = alarms.post()
            context |= {"post": post, "post_tone": say.post_tone(post), "post_said": post.sentence(self.now)}
            context["notices"] = _notices(None)
        return context


class OneAlarm(Asked):
    template = "dashboard/alarms/alarm.html"
    parts = {
        "head": Part("dashboard/alarms/head.html", on=ALARM),
        "about": Part("dashboard/alarms/about.html", on=ALARM),
        "told": Part("dashboard/alarms/told.html", on=ALARM),
    }

    def title(self) -> str:
        return f"Alarm {self.kwargs['id']}"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        row = alarms.alarm(self.kwargs["id"])
        context: dict[str, Any] = {
            "alarm": say.alarm_view(row),
            "row": row,
            "short": say.short(row),
            "why": say.why(row),
        }
        if "told" in wanted:
            context |= {"notices": _notices(row.id), "where": alarms.where()}
        return context | {"api_path": f"/api/v1/alarms/{row.id}", "cli": f"alarms show {row.id}"}


class Runbooks(Page):
    template = "dashboard/alarms/runbooks.html"
    place = "alarms"

    def title(self) -> str:
        return "Runbooks"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {"books": RUNBOOKS.items()}


class AcknowledgeAlarm(Editing):
    action, go = "alarm.acknowledge", "Acknowledge"
    means = "Everybody sees who looks after it. It stays open until its cause is gone."

    def subject(self) -> AlarmRow:
        return alarms.alarm(_number(self.on))

    def name(self, row: AlarmRow) -> str:
        return f"alarm {row.id}"

    def lines(self, row: AlarmRow) -> Sequence[Line]:
        said = [Line("what", row.sentence), Line("since", age_text(self.now - row.since)), Line("next", row.next)]
        if row.acknowledged:
            said.append(Line("so far", f"{row.acknowledged_by}: {row.acknowledged_reason}", "warn"))
        return said

    def change(self, row: AlarmRow, given: dict[str, Any], expected: int | None) -> str:
        return commands.acknowledge(row.id, actor=self.who.name, reason=given["reason"], now=self.now).sentence

    def shells(self, base: str, row: AlarmRow, given: Mapping[str, Any]) -> tuple[str, str]:
        reason = given.get("reason") or "…"
        asked = curl(base, f"/api/v1/alarms/{row.id}/acknowledge", method="POST", body={"reason": reason})
        return asked, cli(["alarms", "ack", str(row.id), "--reason", reason])


class AlarmsSheet(Asked, Sheet):
    name = "alarms"

    def text(self) -> str:
        found = alarms.listing(severity=self.severity(), instance=self.instance(), limit=MOST + 1)
        return sheet(
            COLUMNS,
            ([getattr(one, name) for name in COLUMNS] for one in found[:MOST]),
            more=f"only the newest {MOST} are in this file" if len(found) > MOST else "",
        )


def _notices(alarm: int | None) -> list[tuple[Any, str]]:
    return [(row, say.notice_text(row)) for row in alarms.notices(alarm=alarm, limit=NOTICES)]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise Refused("an alarm is named by its number", code="malformed")
    return int(text)


urlpatterns = [
    path("alarms/", Alarms.as_view(), name="alarms"),
    path("alarms.csv", AlarmsSheet.as_view(), name="alarms-csv"),
    path("alarms/runbooks/", Runbooks.as_view(), name="runbooks"),
    path("alarms/<int:id>/", OneAlarm.as_view(), name="alarm"),
    path("act/acknowledge-alarm", AcknowledgeAlarm.as_view(), name="acknowledge-alarm"),
]
