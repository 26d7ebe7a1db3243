"""What all dialogs share: asked for by a button they come alone, opened by themselves they are a page like any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from controlplane.access.roles import LEAST_ROLE
from controlplane.acts import noting
from controlplane.domain.errors import Refused
from controlplane.queries import history
from dashboard.errors import STATUS
from dashboard.frame import frame
from dashboard.page import FRAME, PARTS_HEADER, Page

ASKED_BY_SCRIPT = "HX-Request"
VIA = "page"


class Dialog(Page):
    """Subclasses `ask` on GET and `act` on POST."""

    template: ClassVar[str] = "dashboard/acting/page.html"
    heading = "Act"

    def title(self) -> str:
        return self.heading

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        return {}

    def ask(self) -> HttpResponse:
        raise NotImplementedError

    def act(self) -> HttpResponse:
        raise NotImplementedError

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if PARTS_HEADER in request.headers:
            return super().get(request, *args, **kwargs)
        return self._safely(self.ask)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._safely(self.act)

    @property
    def alone(self) -> bool:
        """A page of its own, and not a dialog on another one."""
        return ASKED_BY_SCRIPT not in self.request.headers

    @property
    def back(self) -> str:
        """Where somebody came from, as far as it is one of ours."""
        came = _came_from(self.request)
        wanted = self.request.POST.get("back") or self.request.GET.get("back") or came
        ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) and wanted.startswith("/")
        return wanted if ours and not wanted.startswith(reverse("act", args=["x"])[:-1]) else reverse("overview")

    def demand(self, verb: str, action: str, target: str) -> None:
        """Refuse whoever may not; an attempt (anything but looking) is kept."""
        if self.who.may(verb):
            return
        sentence = f"this needs the role {LEAST_ROLE[verb].name.lower()}"
        if self.request.method == "POST":
            self.note(action, target, status=403, outcome=sentence, allowed=False)
        raise Refused(sentence, code="forbidden")

    def note(self, action: str, target: str, *, status: int, outcome: str, allowed: bool = True) -> None:
        reason = self.request.POST.get("reason", "")
        who = replace(self.who, via=VIA)
        noting.note(who, action, target, status=status, outcome=outcome, reason=reason, allowed=allowed)

    def show(self, body: str, context: Mapping[str, Any], *, status: int = 200, changed: bool = False) -> HttpResponse:
        """`changed`: the page that asked has something to look at again."""
        said: dict[str, Any] = {"body": body, "alone": self.alone, "back": self.back, "heading": self.heading}
        said |= {"who": self.who, "now": self.now, "page": self, **context}
        if self.alone:
            cursor = history.head_position()
            around = frame(self.request, self.who, self.now, cursor, title=self.title(), place="", about="")
            said |= {**around, "known_parts": {"frame": FRAME}}
        answer = render(self.request, self.template if self.alone else body, said, status=status)
        answer["Cache-Control"] = "no-store"
        if changed:
            answer["HX-Trigger"] = "pdcp:refresh"
        return answer

    def done(self, sentence: str, *, undo: Mapping[str, Any] | None = None, tone: str = "ok") -> HttpResponse:
        """It is done: the page that asked says so, and looks again. Without scripts, a page says it."""
        if self.alone:
            return self.show("dashboard/acting/done.html", {"done": [sentence], "undo": undo, "tone": tone})
        # Not in a header: an undo of a hundred targets is longer than what proxies let through there.
        answer = JsonResponse({"toast": {"tone": tone, "text": sentence, "undo": undo}})
        answer["HX-Trigger"] = "pdcp:refresh"
        answer["Cache-Control"] = "no-store"
        return answer

    def _safely(self, work: Callable[[], HttpResponse]) -> HttpResponse:
        try:
            return work()
        except Refused as refused:
            if self.alone:
                raise
            status = STATUS.get(refused.code, 409)
            return self.show(
                "dashboard/acting/refused.html", {"sentence": refused.sentence, "status": status}, status=status
            )


def _came_from(request: HttpRequest) -> str:
    """Path and query of the page that led here, if it is on this host; blank when it is not, or no address at all."""
    try:
        source = urlsplit(request.META.get("HTTP_REFERER", ""))
    except ValueError:
        return ""
    return f"{source.path}?{source.query}".rstrip("?") if source.netloc == request.get_host() else ""
