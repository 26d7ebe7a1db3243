"""The page on which an action is asked for, looked at and confirmed. Nothing is done that was not shown just before."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme

from controlplane.acts.asking import ReasonForm
from controlplane.acts.cases import STATUS, Case, case_of, do, one_by_one, read_seen, seen_of
from controlplane.acts.table import ACTS, Did
from controlplane.acts.targets import Standing, Target, differences, look
from controlplane.commands import drains
from controlplane.domain.errors import Refused

from .audit import demand, note

SAID = 8
"""How many results are said one by one."""

ALONE = "What remains is said of each as if it were the only one. They are done one after the other."


def act(site: AdminSite, request: HttpRequest, name: str) -> HttpResponse:
    known = ACTS.get(name)
    if known is None:
        raise Http404(f"there is no action {name}")
    asked = request.POST if request.method == "POST" else request.GET
    action, back = f"instance.{name}", _back(request, asked.get("back", ""))
    demand(request, known.verb, action, ", ".join(asked.getlist("on")))
    try:
        case = case_of(name, asked.getlist("on"))
        if known.plan:
            one_by_one(case.targets)
        standings = look(case.targets, launches=case.act.of_launch)
    except Refused as refused:
        if request.method == "POST":
            reason, status = request.POST.get("reason", ""), STATUS.get(refused.code, 409)
            note(
                request, action, ", ".join(asked.getlist("on")), status=status, outcome=refused.sentence, reason=reason
            )
        messages.error(request, f"{refused.sentence}.")
        return HttpResponseRedirect(back)
    if request.method != "POST":
        return _page(site, request, case, ReasonForm(known), standings, back)
    form = ReasonForm(known, request.POST)
    if not form.is_valid() or request.POST.get("step") == "change":
        return _page(site, request, case, form, standings, back, status=200 if form.is_valid() else 400)
    return _decide(site, request, case, form, standings, back)


def _decide(
    site: AdminSite, request: HttpRequest, case: Case, form: ReasonForm, standings: Sequence[Standing], back: str
) -> HttpResponse:
    """Show what would be done, unless exactly that was shown and is confirmed."""
    moved = differences(read_seen(request.POST.get("seen", "")), standings)
    problems: list[str] = []
    status = 200
    if request.POST.get("step") == "confirm":
        problems = case.untrue(request.POST.get("count", ""), request.POST.get("typed", ""))
        if not moved and not problems:
            return _do(request, case, form, standings, back)
        status = 412 if moved else 400
        outcome = "changed since it was shown" if moved else " ".join(problems)
        for standing in standings:
            _note(request, case, standing.target, status=status, outcome=outcome, reason=form.cleaned_data["reason"])
    return _page(
        site, request, case, form, standings, back, moved=moved, problems=problems, confirm=True, status=status
    )


def _do(request: HttpRequest, case: Case, form: ReasonForm, standings: Sequence[Standing], back: str) -> HttpResponse:
    asked = form.asked(request.user.get_username(), now=time.time())
    done: list[Any] = []
    refused: list[str] = []
    for result in do(case, standings, asked):
        if result.did is None:
            refused.append(f"{result.target.title}: {result.sentence}.")
        else:
            done.append(_in_words(result.did))
        _note(request, case, result.target, status=result.status, outcome=result.sentence, reason=asked.reason)
    _say(request, messages.SUCCESS, done)
    _say(request, messages.ERROR, refused)
    return HttpResponseRedirect(back)


def _page(
    site: AdminSite,
    request: HttpRequest,
    case: Case,
    form: ReasonForm,
    standings: Sequence[Standing],
    back: str,
    *,
    moved: Mapping[str, Sequence[str]] | None = None,
    problems: Sequence[str] = (),
    confirm: bool = False,
    status: int = 200,
) -> HttpResponse:
    rows = [_row(case, form, standing, confirm=confirm) for standing in standings]
    context = {
        **site.each_context(request),
        "title": f"{case.act.label}: {case.what}",
        "subtitle": None,
        "case": case,
        "back": back,
        "notes": [*case.notes, *([ALONE] if case.act.plan and len(standings) > 1 else [])],
        "form": form,
        "rows": rows,
        "seen": seen_of(standings),
        "moved": moved or {},
        "problems": problems,
        "refused": all(row["refused"] for row in rows),
        "confirm": confirm,
    }
    return TemplateResponse(request, "admin/controlplane/act.html", context, status=status)


def _row(case: Case, form: ReasonForm, standing: Standing, *, confirm: bool) -> dict[str, Any]:
    """One target: how it stands, what the action means to it, and with `confirm` the plan."""
    target = standing.target
    row: dict[str, Any] = {
        "target": target,
        "says": standing.says,
        "means": case.act.means.format(what=target.title),
        "plan": (),
        "refused": "",
    }
    if confirm and case.act.plan:
        try:
            min_ready = form.cleaned_data.get("min_ready") or 0
            plan = drains.plan(target.name, group=target.group, min_ready=min_ready, now=time.time())
            row |= _planned(plan) if case.act.drains else {"plan": _remaining(plan)}
        except Refused as refused:
            row["refused"] = refused.sentence
    return row


def _planned(plan: drains.Plan) -> dict[str, Any]:
    # A refusal is said first there; here it stands apart.
    return {"plan": plan.sentences[1:] if plan.refused else plan.sentences, "refused": plan.refused or ""}


def _remaining(plan: drains.Plan) -> list[str]:
    said = [
        f"Routable {plan.role} instances: {plan.instances_now} → {plan.instances_after}; DP groups: {plan.groups_now} →"
        f" {plan.groups_after}; ranks: {plan.ranks_now} → {plan.ranks_after}; pairs: {plan.pairs_now} → {plan.pairs_after}."
    ]
    if not plan.can_stop_admission:
        said.append("Nobody who chooses workers is known who would be told of it.")
    return said


def _in_words(did: Did) -> Any:
    sentence = f"{did.sentence.rstrip('.')}."
    if did.request is None:
        return sentence
    address = reverse("admin:controlplane_request_change", args=[did.request])
    return format_html('{} <a href="{}">See its answer.</a>', sentence, address)


def _say(request: HttpRequest, level: int, sentences: Sequence[Any]) -> None:
    for sentence in sentences[:SAID]:
        messages.add_message(request, level, sentence)
    if len(sentences) > SAID:
        messages.add_message(request, level, f"… and {len(sentences) - SAID} more like this; the events say each.")


def _back(request: HttpRequest, wanted: str) -> str:
    if url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) and wanted.startswith("/"):
        return wanted
    return reverse("admin:controlplane_instance_changelist")


def _note(request: HttpRequest, case: Case, target: Target, *, status: int, outcome: str, reason: str) -> None:
    note(request, case.action, target.words, status=status, outcome=outcome, reason=reason)
