"""Events of the ledger as the rows that tables show, with long runs of one kind folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from controlplane.queries.events import EventRow, sentence

from .turns import Side, subject_of, turn_of

SHOWN_OF_A_RUN = 1
SHORTEST_FOLD = 3
"""A run is folded when at least this many rows would go out of sight."""


@dataclass(frozen=True, slots=True)
class EventView:
    """One row. `url`: the page about its subject, blank when there is none. `why`: its reason, else the sentence."""

    revision: int
    at: float
    kind: str
    subject: str
    url: str
    before: Side | None
    after: Side | None
    who: str
    why: str
    sentence: str
    selected: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of one kind about one thing, newest first; `folded` go behind `told` until somebody asks."""

    shown: tuple[EventView, ...]
    folded: tuple[EventView, ...] = ()
    told: str = ""

    @property
    def oldest(self) -> int:
        return (self.folded or self.shown)[-1].revision


def event_views(rows: Sequence[EventRow], *, selected: int | None = None, fold: bool = True) -> list[Run]:
    """Rows in the order given, for `components/events.html`. `selected` is never folded away."""
    return [run for same in _runs(rows) for run in _folded(same, selected, fold)]


def event_view(event: EventRow, *, selected: bool = False) -> EventView:
    turn = turn_of(event)
    subject, url = subject_of(event)
    told = sentence(event)
    # Where the two sides say what happened, the cause is worth the space; else the sentence, and who asked for it why.
    if turn.after is not None and (event.reason or turn.why):
        why = event.reason or turn.why
    else:
        why = f"{told}: {event.reason}" if event.reason else told
    return EventView(
        event.revision,
        event.at,
        event.kind,
        subject,
        url,
        turn.before,
        turn.after,
        who_of(event),
        why,
        told,
        selected,
    )


def who_of(event: EventRow) -> str:
    """Who caused it: a person or a token by name, else the process of ours that saw it."""
    if event.actor:
        return event.actor
    if event.kind == "breaker.turned":
        return str(event.data.get("gateway", ""))
    return "clockwork" if event.kind.startswith(("drain.", "router.", "gateway.", "alarm.")) else "bootstrap"


def _runs(rows: Sequence[EventRow]) -> Iterator[list[EventRow]]:
    for (_, _, _, actor), group in groupby(rows, lambda e: (e.kind, e.instance, e.data.get("launch"), e.actor)):
        same = list(group)
        # What people did stands for itself, however often.
        yield from ([event] for event in same) if actor else [same]


def _folded(same: list[EventRow], selected: int | None, fold: bool) -> Iterator[Run]:
    views = [event_view(event, selected=event.revision == selected) for event in same]
    hidden = views[SHOWN_OF_A_RUN:]
    if not fold or len(hidden) < SHORTEST_FOLD or any(view.selected for view in hidden):
        yield from (Run((view,)) for view in views)
        return
    yield Run(tuple(views[:SHOWN_OF_A_RUN]), tuple(hidden), _told(same[SHOWN_OF_A_RUN:]))


def _told(hidden: list[EventRow]) -> str:
    """
    >>> _told([EventRow(r, 0.0, "rank.left", "p", "", "", {"launch": 8}) for r in (9, 8, 7)])
    '3 more rank.left, 7 to 9, p launch 8'
    """
    first = hidden[0]
    revisions = sorted(event.revision for event in hidden)
    launch = f" launch {first.data['launch']}" if first.data.get("launch") else ""
    about = f", {first.instance}{launch}" if first.instance else ""
    return f"{len(hidden)} more {first.kind}, {revisions[0]} to {revisions[-1]}{about}"
