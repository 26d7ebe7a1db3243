"""Ranks in the admin. Their key has six columns, which Django's admin does not take: so they have pages of their own,
which look like the others and obey the same rules."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from controlplane.access.roles import READ
from controlplane.acts.table import ACTS, RANK
from controlplane.acts.targets import read, read_all
from controlplane.domain.errors import Refused
from controlplane.models import Rank
from controlplane.queries.wording import slot_key

from . import rank_rows
from .audit import demand
from .picking import address_of, offered
from .rank_rows import Listed, RankFilter
from .rights import may
from .showing import moment

FIELDS = (
    *("first_at", "seen_at", "again_at", "contact", "greeted", "verified_term", "flags", "http_port", "adopted"),
    *("left_at", "left_reason"),
)


def listing(site: AdminSite, request: HttpRequest) -> HttpResponse:
    demand(request, READ, "ranks", "")
    if request.method == "POST":
        return _act(request)
    form = RankFilter(request.GET)
    asked = form.cleaned_data if form.is_valid() else {}
    found = rank_rows.page(asked) if form.is_valid() else rank_rows.RankPage((), False)
    number = asked.get("p") or 1
    context = {
        "title": "Ranks",
        "filter": form,
        "rows": [_shown(listed) for listed in found.rows],
        "acts": offered(request, RANK),
        "checkbox": ACTION_CHECKBOX_NAME,
        "number": number,
        "first": (number - 1) * rank_rows.PAGE + 1,
        "end": (number - 1) * rank_rows.PAGE + len(found.rows),
        "before": _at_page(request, number - 1) if number > 1 else None,
        "after": _at_page(request, number + 1) if found.more else None,
        "last": not found.more and number == rank_rows.LAST_PAGE,
    }
    return _render(site, request, "admin/controlplane/rank_list.html", context)


def detail(site: AdminSite, request: HttpRequest, instance: str, launch: int, slot: str) -> HttpResponse:
    demand(request, READ, "ranks", "")
    try:
        target = read(f"{instance}:{launch}:{slot}")
    except Refused:
        raise Http404("there is no such rank") from None
    listed = rank_rows.one(instance, launch, target.slot) if target.slot is not None else None
    if listed is None:
        raise Http404("there is no such rank")
    acts = [
        (label, address_of(name, [listed.target], back=request.path))
        for name, label in offered(request, RANK)
        if listed.open or ACTS[name].gone
    ]
    fields = [(name.replace("_", " "), _value(listed.rank, name)) for name in FIELDS]
    context = {
        "title": f"{listed.name} of {listed.instance}, launch {launch}",
        "listed": listed,
        "fields": fields,
        "acts": acts,
    }
    return _render(site, request, "admin/controlplane/rank_detail.html", context)


def in_index(request: HttpRequest, address: str) -> dict[str, Any] | None:
    """Ranks among the models of the index, for whoever may look at them."""
    if not may(request, READ):
        return None
    return {
        "model": Rank,
        "name": "Ranks",
        "object_name": "Rank",
        "perms": {"add": False, "change": False, "delete": False, "view": True},
        "admin_url": address,
        "add_url": None,
        "view_only": True,
    }


def _act(request: HttpRequest) -> HttpResponse:
    name = request.POST.get("action", "")
    act = ACTS.get(name)
    if act is None or RANK not in act.on:
        messages.warning(request, "No action selected.")
        return HttpResponseRedirect(request.get_full_path())
    demand(request, act.verb, f"instance.{name}", ", ".join(request.POST.getlist(ACTION_CHECKBOX_NAME)))
    try:
        targets = read_all(request.POST.getlist(ACTION_CHECKBOX_NAME))
    except Refused as refused:
        messages.warning(request, f"{refused.sentence}.")
        return HttpResponseRedirect(request.get_full_path())
    return HttpResponseRedirect(address_of(name, targets, back=request.get_full_path()))


def _shown(listed: Listed) -> dict[str, Any]:
    rank = listed.rank
    return {
        "listed": listed,
        "slot": slot_key(listed.slot),
        "seen": moment(rank.seen_at),
        "left": moment(rank.left_at) if rank.left_at is not None else "",
    }


def _value(rank: Rank, name: str) -> Any:
    value = getattr(rank, name)
    if name.endswith("_at"):
        return moment(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else value


def _at_page(request: HttpRequest, number: int) -> str:
    kept = [(key, value) for key, value in request.GET.items() if key != "p" and value]
    return f"?{urlencode([*kept, ('p', str(number))])}"


def _render(site: AdminSite, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    return TemplateResponse(request, template, {**site.each_context(request), "subtitle": None, **context})
