"""Weights: who publishes them, how many of its ranks do, which claims are in conflict, and the tensors of one session."""

from __future__ import annotations

from typing import Any

from django.urls import path
from django.utils.functional import SimpleLazyObject

from controlplane.domain.errors import Refused
from controlplane.queries import sessions, tensors, weights
from controlplane.queries.engine_info import SessionRow
from dashboard.page import PARTS_HEADER, Page, Part
from dashboard.presenters.published import reached_text, share, short, size_text, word_of

WHAT_MATTERS = ("engine.", "launch.", "instance.", "intent.")


class Weights(Page):
    """Instances that publish, the worst news first."""

    template = "dashboard/weights/page.html"
    parts = {"published": Part("dashboard/weights/published.html", on=WHAT_MATTERS)}
    place = "weights"

    def title(self) -> str:
        return "Weights"

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        asked = self.request.GET
        text, only = asked.get("q", "").strip(), asked.get("only", "")
        found = weights.published(text=text, only=only, after=asked.get("from", ""))
        return {
            "found": found,
            "total_bytes": size_text(found.total_bytes),
            "rows": [
                (row, size_text(row.total_bytes), share(row.sessions, row.coverage.expected) if row.coverage else 0)
                for row in found.rows
            ],
            "clashes": weights.clashes() if found.conflicts else (),
            "q": text,
            "only": only,
        }


class WeightsOf(Page):
    """The sessions of one instance, by rank; or those that ended."""

    template = "dashboard/weights/instance.html"
    parts = {"sessions": Part("dashboard/weights/sessions.html", on=WHAT_MATTERS)}
    place = "weights"

    def title(self) -> str:
        return f"Weights of {self.kwargs['name'][:100]}"

    def about(self) -> str:
        return str(self.kwargs["name"])

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        asked = self.request.GET
        show, after = asked.get("show", ""), asked.get("after", "")
        if show not in ("", "ended"):
            raise Refused(f"show must be ended, or left away, not {show[:40]}", code="malformed")
        row = weights.of_instance(self.kwargs["name"])
        found = sessions.ended(row.id, after=after) if show else sessions.present(row.id, after=after)
        return {
            "row": row,
            "size": size_text(row.total_bytes),
            "part_of": share(row.sessions, row.coverage.expected) if row.coverage else 0,
            "clashes": weights.clashes(instance=row.name) if row.conflicts else (),
            "sessions": [_shown(session) for session in found.rows],
            "next": found.next,
            "after": after,
            "show": show,
        }


class Session(Page):
    """One session of one rank and the tensors that it published: those never change, so they are no part that is asked
    for again."""

    template = "dashboard/weights/session.html"
    parts = {"session": Part("dashboard/weights/head.html", on=WHAT_MATTERS)}
    place = "weights"

    def title(self) -> str:
        return f"Rank {self.kwargs['rank']} of {self.kwargs['name'][:100]}, epoch {self.kwargs['epoch']}"

    def about(self) -> str:
        return str(self.kwargs["name"])

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        row = weights.of_instance(self.kwargs["name"])
        found = sessions.session(row.id, _number(self.kwargs["rank"]), _number(self.kwargs["epoch"]))
        clash = next((one for one in weights.clashes(instance=row.name) if one.rank == found.rank), None)
        context: dict[str, Any] = {
            "row": row,
            "shown": _shown(found),
            "clash": clash if row.conflicts else None,
            "sharing": sessions.sharing(row.id, found.digest),
        }
        if PARTS_HEADER not in self.request.headers:
            context |= self._tensors(found)
        return context

    def _tensors(self, found: SessionRow) -> dict[str, Any]:
        text = self.request.GET.get("q", "").strip()[:200]
        start = tensors.read_place(self.request.GET.get("after", ""))
        kept = sessions.stored(found.digest)
        if kept is None:
            return {"kept": False}

        def read() -> tuple[tensors.TensorPage, list[str]]:
            page = tensors.page(kept[0], start=start, text=text)
            return page, [size_text(row.bytes) for row in page.rows]

        # Unpacked while the page is written, when the transaction that this is asked in has ended.
        return {"kept": True, "tensors": SimpleLazyObject(read), "q": text, "start": start, "json": size_text(kept[1])}


def _shown(session: SessionRow) -> dict[str, Any]:
    return {
        "session": session,
        "word": word_of(session),
        "size": size_text(session.total_bytes),
        "digest": short(session.digest),
        "reached": reached_text(session),
    }


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise Refused(f"there is no rank or epoch {text[:20]}", code="not_found")
    return int(text)


urlpatterns = [
    path("weights/", Weights.as_view(), name="weights"),
    path("weights/<str:name>/", WeightsOf.as_view(), name="weights-of"),
    path("weights/<str:name>/<str:rank>/<str:epoch>/", Session.as_view(), name="session"),
]
