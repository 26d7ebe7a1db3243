"""Alarms as their pages say them: a word or two, where their links lead, and how the webhook does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.runbooks import RUNBOOKS, Runbook
from controlplane.queries.alarms import AlarmRow, NoticeRow, Post

from .attention import url_of

MINE = ("acknowledged", "clearing", "flapping")


@dataclass(frozen=True, slots=True)
class AlarmView:
    """`words`: states that stand beside its severity. `url` leads to what it is about, `step_url` to the next step."""

    row: AlarmRow
    words: tuple[str, ...]
    url: str
    step_url: str
    book: Runbook

    @property
    def runbook_url(self) -> str:
        return f"/alarms/runbooks/#{self.row.runbook}"


def alarm_view(row: AlarmRow) -> AlarmView:
    return AlarmView(row, _words(row), url_of(row.at), url_of(row.to), RUNBOOKS[row.runbook])


def alarm_views(rows: Sequence[AlarmRow]) -> list[AlarmView]:
    return list(map(alarm_view, rows))


def _words(row: AlarmRow) -> tuple[str, ...]:
    if row.status == "resolved":
        return ("resolved",)
    held = {"acknowledged": row.acknowledged, "clearing": row.clear_since is not None, "flapping": row.flapping}
    return tuple(word for word in MINE if held[word])


def short(row: AlarmRow) -> str:
    """The verdict in short, on the page of one alarm."""
    if row.status == "resolved":
        return "Over."
    if row.clear_since is not None:
        return "Not so any more."
    return f"Looked after by {row.acknowledged_by}." if row.acknowledged else "Nobody looks after it yet."


def why(row: AlarmRow) -> str:
    said = []
    if row.acknowledged:
        said.append(f"{row.acknowledged_by} said: {row.acknowledged_reason.rstrip('.')}.")
    if row.clear_since is not None:
        said.append("It is over once that lasts.")
    if row.flapping:
        said.append(f"It came back {row.returns} times, so it is called over later each time.")
    return " ".join(said)


def post_tone(post: Post) -> str:
    if not post.where:
        return "none"
    return "bad" if post.waiting and post.problem else "ok"


def notice_text(row: NoticeRow) -> str:
    """What came of a message; how often it was tried stands beside it.

    >>> notice_text(NoticeRow(1, "", 1, "raised", "waiting", 0.0, 0.0, 2, 503, "it answered 503", 0.1, None))
    'it answered 503'
    """
    if row.problem and row.state != "delivered":
        return row.problem
    if row.status is not None:
        return f"it answered {row.status}"
    return "not sent yet"
