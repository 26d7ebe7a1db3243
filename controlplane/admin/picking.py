"""From a list to an action: what is selected there becomes an address of the page that asks why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from controlplane.acts.table import ACTS, DRAIN, INSTANCE
from controlplane.acts.targets import MOST, Target

from .records import Record
from .rights import may


def address_of(act: str, targets: Iterable[Target], *, back: str = "") -> str:
    """The page that asks why `act` shall be done to these; `back` is where to go afterwards."""
    asked = [("on", str(target)) for target in targets]
    return f"{reverse('admin:act', args=[act])}?{urlencode([*asked, *([('back', back)] if back else [])])}"


def offered(request: HttpRequest, kind: str) -> list[tuple[str, str]]:
    """Names and labels of what this person may do from a list of that kind."""
    return [(name, act.label) for name, act in ACTS.items() if kind in act.on and may(request, act.verb)]


class Offering(Record):
    """A table whose rows actions can be about; `kind` is what `ACTS` calls it."""

    kind: ClassVar[str]

    def get_actions(self, request: HttpRequest) -> Any:
        return {name: (_picked(name, self.kind), name, label) for name, label in offered(request, self.kind)}


def _picked(act: str, kind: str) -> Any:
    def picked(page: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        targets = list(dict.fromkeys(_targets(kind, queryset)))
        if len(targets) > MOST:
            messages.error(request, f"More than {MOST} are selected: select fewer, so that you can look through them.")
            return None
        return HttpResponseRedirect(address_of(act, targets, back=request.get_full_path()))

    return picked


def _targets(kind: str, queryset: QuerySet[Any]) -> Iterable[Target]:
    if kind == INSTANCE:
        return [Target(name) for name in queryset.values_list("name", flat=True)[: MOST + 1]]
    assert kind == DRAIN
    return [Target(name, group) for name, group in queryset.values_list("instance", "group")[: MOST + 1]]
