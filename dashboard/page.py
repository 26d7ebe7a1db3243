"""What every page is: parts, each rendered by one template, whether the whole page is asked for or only what changed.

A browser that has the page asks for the same URL with the header `X-PDCP-Parts: attention,instances` and gets just
these parts, one after the other, to be morphed into what it shows. So page and refresh can never disagree.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib.auth.views import redirect_to_login
from django.db import DatabaseError, DataError
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.gzip import gzip_page

from controlplane.access.identity import who_of_request
from controlplane.access.roles import READ, Who
from controlplane.domain.errors import Refused
from controlplane.queries import fleet, history

from .errors import away, refused
from .frame import frame

PARTS_HEADER = "X-PDCP-Parts"
CURSOR_HEADER = "X-PDCP-Cursor"


@dataclass(frozen=True, slots=True)
class Part:
    """One region of a page. `on`: the kinds of events that may change it, by prefix (`rank.`); `*` is every kind.

    `hold_new`: rows that were not there before wait behind a chip, so that nothing jumps under the pointer.
    """

    template: str
    on: Sequence[str] = ("*",)
    hold_new: bool = False


FRAME = Part("components/frame.html", on=("alarm.", "drain.", "gateway.", "router.", "breaker.", "engine.", "leader."))
"""The part that every page has: counts beside the places, and how our own processes do."""


# Not a middleware: the API's ETags must stay strong. Against BREACH Django pads what it compresses.
@method_decorator(gzip_page, name="dispatch")
class Page(View):
    """Subclasses name their parts and `build` the context of those that are wanted."""

    template: ClassVar[str]
    parts: ClassVar[Mapping[str, Part]] = {}
    place: ClassVar[str] = ""
    """Which line of the navigation this page belongs to."""

    verb: ClassVar[str] = READ
    who: Who
    now: float

    def title(self) -> str:
        raise NotImplementedError

    def build(self, wanted: frozenset[str]) -> dict[str, Any]:
        """The context of these parts. Asked for inside one snapshot of the database. Raises Refused."""
        raise NotImplementedError

    def about(self) -> str:
        """The instance that this page is about, so that its socket hears of that one alone; blank: the whole fleet."""
        return ""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self.who = who_of_request(request)
        self.now = time.time()
        if not self.who.known:
            if self.who.name:
                said = f"{self.who.name} is in none of the groups viewer, operator and admin; ask an administrator"
                return refused(request, Refused(said, code="forbidden"))
            if PARTS_HEADER in request.headers or "HX-Request" in request.headers:
                return HttpResponse(status=401)
            return redirect_to_login(request.get_full_path())
        if not self.who.may(self.verb, self.about() or None):
            return refused(request, Refused(f"{self.who.name} may not {self.verb} here", code="forbidden"))
        try:
            return super().dispatch(request, *args, **kwargs)
        except Refused as refusal:
            return refused(request, refusal)
        except DataError:
            # Of PostgreSQL; SQLite finds nothing there.
            said = "something that was asked for holds what no row can hold: a NUL, or a number that is too large"
            return refused(request, Refused(said, code="malformed"))
        except DatabaseError as problem:
            return away(request, problem)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        asked = request.headers.get(PARTS_HEADER)
        known = {**self.parts, "frame": FRAME}
        # Each once, however often a header names it.
        names = list(dict.fromkeys(filter(None, asked.split(",")))) if asked is not None else list(known)
        if strange := [name for name in names if name not in known]:
            raise Http404(f"this page has no part {strange[0]}")
        wanted = frozenset(names)
        with fleet.snapshot():
            cursor = history.head_position()
            context = self.build(wanted - {"frame"}) if wanted - {"frame"} or asked is None else {}
            context |= (
                frame(request, self.who, self.now, cursor, title=self.title(), place=self.place, about=self.about())
                if asked is None or "frame" in wanted
                else {}
            )
        context |= {"who": self.who, "now": self.now, "page": self}
        if asked is None:
            said: list[str] = [render_to_string(self.template, context | {"known_parts": known}, request)]
        else:
            said = [render_part(name, known[name], context, request) for name in names]
        response = HttpResponse("\n".join(said))
        response[CURSOR_HEADER] = str(cursor)
        response["Cache-Control"] = "no-store"
        response["Vary"] = PARTS_HEADER
        return response


def render_part(name: str, part: Part, context: Mapping[str, Any], request: HttpRequest | None) -> str:
    """The part inside the element that live updates find it by."""
    inner = render_to_string(part.template, dict(context), request)
    return render_to_string(
        "components/part.html", {"name": name, "on": " ".join(part.on), "hold_new": part.hold_new, "inner": inner}
    )
