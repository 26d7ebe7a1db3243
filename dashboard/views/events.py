"""Events: the ledger as people look through it, and one event with what it turned."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse

from controlplane.domain.errors import Refused
from controlplane.queries import history, searching, state, turned
from controlplane.queries.events import TELL
from controlplane.queries.searching import SOMEBODY, Found, Sought
from dashboard.page import Page, Part
from dashboard.presenters import sought
from dashboard.presenters.density import bars_between, drawing
from dashboard.presenters.events import event_views
from dashboard.presenters.one_event import one_event
from dashboard.presenters.sought import Asked, asking

AT_A_TIME = 100
NEWER_ABOVE = 12
"""How many newer events stand above the one that a link names."""

SPAN_SECONDS = 900.0
KINDS = sorted({kind.partition(".")[0] for kind in TELL})
RANGES = (("15m", "last 15 min"), ("1h", "last hour"), ("6h", "last 6 h"), ("24h", "last 24 h"))
OF_A_PAGE = ("event", "show", "before", "after")
"""What a URL says beside what is sought."""


class Events(Page):
    template = "dashboard/events/page.html"
    parts = {
        "then": Part("dashboard/events/then.html"),
        "events": Part("dashboard/events/list.html", hold_new=True),
        # What was, stays as it was; only who knows of it changes.
        "one": Part("dashboard/events/one.html", on=("gateway.",)),
    }
    place = "events"

    def title(self) -> str:
        return f"Event {self.kwargs['revision']}" if "revision" in self.kwargs else "Events"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        at = request.GET.get("at", "").strip()
        if at:
            kept = _without({key: str(value) for key, value in request.GET.items()}, "at", *OF_A_PAGE)
            return redirect(reverse("event", args=[revision_of(at, self.now)]) + asking(kept))
        return super().get(request, *args, **kwargs)

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        given = {key: str(value) for key, value in self.request.GET.items()}
        asked = sought.read(given, self.now)
        chosen = number(str(self.kwargs.get("revision", given.get("event", ""))), "an event")
        kept = _without(given, "event", "show")
        if "revision" in self.kwargs and not ("before" in kept or "after" in kept):
            # Whoever follows a link goes on from here: another event that is chosen must not turn the page.
            kept["before"] = str(self._around(asked, chosen or 0))
        here = reverse("events")
        context: dict[str, Any] = {
            "given": given,
            "query": asking(_without(given, *OF_A_PAGE)),
            "carried": [(key, value) for key, value in _without(given, *OF_A_PAGE).items() if value],
            "at": f"{here}{asking(kept, event='@')[:-3]}",
            "without": f"{here}{asking(kept)}",
            **self._elsewhere(asked),
        }
        if "then" in wanted:
            context |= self._then(asked, chosen)
        if "events" in wanted:
            context |= self._list(asked, chosen, kept)
        if "one" in wanted:
            context |= self._one(chosen, given)
        return context

    def _elsewhere(self, asked: Asked) -> dict[str, Any]:
        """How a script reads about the same: the API narrows by one instance, kinds and one actor."""
        instance = asked.instances[0] if len(asked.instances) == 1 else ""
        who = asked.who if asked.who != SOMEBODY else ""
        query = {"instance": instance, "kind": ",".join(asked.kinds), "actor": who}
        path = urlencode({key: value for key, value in query.items() if value})
        words = ["events --json", *([f"--instance {instance}"] if instance.replace("-", "").isalnum() else [])]
        return {"api_path": f"/api/v1/events{f'?{path}' if path else ''}", "cli": " ".join(words)}

    def _then(self, asked: Asked, chosen: int | None) -> dict[str, Any]:
        until = asked.until if asked.until is not None else self.now
        start = asked.since if asked.since is not None else until - SPAN_SECONDS
        if start >= until:
            raise Refused("since must be before until", code="malformed")
        event = searching.event(chosen) if chosen is not None else None
        counted = searching.density(*bars_between(start, until))
        return {
            "density": counted,
            "drawing": drawing(counted, event.at if event else None),
            "marked": event,
            "newer_than_marked": searching.newer_than(event.revision) if event else 0,
        }

    def _list(self, asked: Asked, chosen: int | None, kept: dict[str, str]) -> dict[str, Any]:
        before, after = (number(kept.get(name, ""), name) for name in ("before", "after"))
        found = look(asked, before=before, after=after, limit=AT_A_TIME)
        pages = _without(kept, "before", "after")
        here, actors = reverse("events"), searching.actors()
        revisions = [row.revision for row in found.items]
        return {
            "found": found,
            "events": event_views(found.items, selected=chosen),
            "lowest": min(revisions, default=0),
            "highest": max(revisions, default=0),
            "none": _none(narrow=asked.narrow, before=before),
            # Revisions have no gap: whatever would stand below went because it was old.
            "gone": not asked.narrow and found.older is None and bool(revisions) and min(revisions) > 1,
            "older": f"{here}{asking(pages, before=found.older)}" if found.older is not None else "",
            "newer": f"{here}{asking(pages, after=found.newer)}" if found.newer is not None else "",
            "newest": f"{here}{asking(pages)}",
            "kinds": KINDS,
            "actors": actors,
            "somebody": SOMEBODY,
            "ranges": RANGES,
            "odd": {
                "kind": _odd(pages, "kind", KINDS),
                "who": _odd(pages, "who", [*actors, SOMEBODY]),
                "since": _odd(pages, "since", [key for key, _ in RANGES]),
            },
        }

    def _around(self, asked: Asked, revision: int) -> int:
        """Before which revision to begin, so that the event that a link names has some newer ones above it."""
        following = look(asked, after=revision, limit=NEWER_ABOVE).items
        return (following[0].revision if following else revision) + 1

    def _one(self, chosen: int | None, given: dict[str, str]) -> dict[str, Any]:
        if chosen is None:
            return {"one": None}
        link = self.request.build_absolute_uri(reverse("event", args=[chosen]))
        return {
            **one_event(turned.turned(chosen), as_json=given.get("show") == "json"),
            "link": link,
            "show": {key: asking({**given, "show": key}) for key in ("diff", "json")},
        }


def _none(*, narrow: bool, before: int | None) -> str:
    if narrow:
        return "No event matches."
    return "Nothing has happened yet." if before is None else "Events before that are not kept any more."


def look(asked: Asked, **options: Any) -> Found:
    """The events that are asked for. Raises Refused when a kind does not exist."""
    low = state.revision_at(asked.since) if asked.since is not None else None
    high = state.revision_at(asked.until) if asked.until is not None else None
    kinds = history.kinds_like(asked.kinds)
    return searching.look(Sought(asked.instances, kinds, asked.who, asked.words, low, high), **options)


def revision_of(text: str, now: float) -> int:
    """Of a revision, or of a time: the last one that was written by then. Raises Refused."""
    if text.isascii() and text.isdigit():
        return number(text, "a revision") or 0
    revision = state.revision_then(sought.moment(text, now))
    if not revision:
        raise Refused(f"nothing had happened yet at {text[:40]}", code="not_found")
    return revision


def number(text: str, what: str) -> int | None:
    """None when there is none. Raises Refused."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused(f"{what} is called by its revision, a whole number, not {text[:40]!r}", code="malformed")
    return int(text)


def _without(given: dict[str, str], *names: str) -> dict[str, str]:
    return {key: value for key, value in given.items() if key not in names}


def _odd(given: dict[str, str], key: str, usual: Any) -> str:
    """What was chosen in the URL, and is not in the list to choose from."""
    value = given.get(key, "")
    return "" if value in usual else value


urlpatterns = [
    path("events/", Events.as_view(), name="events"),
    path("events/<int:revision>/", Events.as_view(), name="event"),
]
