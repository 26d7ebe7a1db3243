"""Actions on instances, DP groups and ranks: asked with what they would mean, done as they were shown, undone from the toast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.urls import path

from controlplane.acts.answers import PATIENCE_SECONDS, answered
from controlplane.acts.cases import MOST_PLANNED, Case, Result, case_of, do, read_seen, seen_of
from controlplane.acts.table import ACTS
from controlplane.acts.targets import Standing, differences, look
from controlplane.acts.undo import undoing
from controlplane.commands import drains
from controlplane.domain.errors import Refused
from controlplane.queries import history, impact
from dashboard.errors import STATUS
from dashboard.presenters import asking, shells

from .asking import UNANSWERED, AskForm, not_yet
from .dialogs import Dialog

ASK = "dashboard/acting/ask.html"


class Acting(Dialog):
    patience = PATIENCE_SECONDS

    def ask(self) -> HttpResponse:
        case, standings = self._case(self.request.GET.getlist("on"))
        return self._shown(case, standings, AskForm(case.act))

    def act(self) -> HttpResponse:
        posted, on = self.request.POST, self.request.POST.getlist("on")
        try:
            case, standings = self._case(on)
        except Refused as refused:
            if refused.code != "forbidden" and self.kwargs["name"] in ACTS:
                self._note(", ".join(on), STATUS.get(refused.code, 409), refused.sentence)
            raise
        form = AskForm(case.act, posted)
        moved = differences(read_seen(posted.get("seen", "")), standings)
        if posted.get("step") == "look":
            not_yet(form)
            return self._shown(case, standings, form, moved=moved)
        problems = case.untrue(posted.get("count", ""), posted.get("typed", ""))
        if moved or problems or not form.is_valid():
            status = 412 if moved else UNANSWERED
            outcome = "changed since it was shown" if moved else " ".join(problems) or "the answers do not hold"
            for target in case.targets:
                self._note(target.words, status, outcome)
            return self._shown(case, standings, form, moved=moved, problems=problems, status=status)
        return self._done(case, standings, form)

    def _case(self, on: Sequence[str]) -> tuple[Case, list[Standing]]:
        name = self.kwargs["name"]
        if name not in ACTS:
            raise Refused(f"there is no action {name[:60]}", code="not_found")
        self.demand(ACTS[name].verb, f"instance.{name}", ", ".join(on))
        case = case_of(name, on)
        self.heading = f"{case.act.label} {case.short}?"
        return case, look(case.targets, now=self.now, launches=case.act.of_launch)

    def _done(self, case: Case, standings: Sequence[Standing], form: AskForm) -> HttpResponse:
        asked = form.asked(self.who.name, now=self.now)
        if asked.min_ready and len(standings) > MOST_PLANNED:
            sentence = f"with a number that must stay, at most {MOST_PLANNED} can be drained at once"
            self._note(", ".join(str(standing.target) for standing in standings), STATUS["malformed"], sentence)
            raise Refused(sentence, code="malformed")
        results = list(answered(do(case, standings, asked), patience=self.patience))
        for result in results:
            self._note(result.target.words, result.status, result.sentence)
        refused = [result for result in results if result.did is None]
        undo = None if self.request.POST.get("undoes") else undoing(case.name, standings, results, asked.reason)
        if not refused:
            return self.done(_in_words(case, results), undo=undo)
        if len(results) == 1:
            # Whoever was faster, or a number that must stay: the same questions again, with what is so now.
            after = look(case.targets, now=self.now, launches=case.act.of_launch)
            moved = differences(read_seen(self.request.POST.get("seen", "")), after)
            problem = f"{refused[0].sentence}."
            return self._shown(case, after, form, moved=moved, problems=[problem], status=refused[0].status)
        done = [f"{result.target.title}: {result.sentence}." for result in results if result.did is not None]
        said = [f"{result.target.title}: {result.sentence}." for result in refused]
        context = {"done": done, "refused": said, "undo": undo, "tone": "warn" if done else "bad"}
        return self.show("dashboard/acting/done.html", context, status=409, changed=bool(done))

    def _shown(
        self,
        case: Case,
        standings: Sequence[Standing],
        form: AskForm,
        *,
        moved: dict[str, list[str]] | None = None,
        problems: Sequence[str] = (),
        status: int = 200,
    ) -> HttpResponse:
        base = self.request.build_absolute_uri("/").rstrip("/")
        curl, cli = shells.of_act(base, case.name, standings, form.answers())
        one = standings[0] if len(standings) == 1 else None
        context = {
            "case": case,
            "form": form,
            "one": one,
            "standings": standings,
            "means": case.act.means.format(what=case.what),
            "ranks": sum(standing.ranks for standing in standings),
            "standing": asking.standing_lines(one.says) if one is not None else (),
            "seen": seen_of(standings),
            "moved": moved or {},
            "problems": problems,
            "undoes": self.request.POST.get("undoes", ""),
            "revision": history.head_position().revision,
            "curl": curl,
            "cli": cli,
            **self._meaning(case, form),
        }
        return self.show(ASK, context, status=status)

    def _meaning(self, case: Case, form: AskForm) -> dict[str, Any]:
        """What would be taken away; nothing where the action takes nothing."""
        if not case.act.plan:
            return {"lines": (), "rooms": ""}
        ready = form.answers().get("min_ready") or 0
        pairs = [(target.name, target.group) for target in case.targets]
        try:
            if len(pairs) > 1:
                lines = asking.of_impact(impact.together(pairs, now=self.now), ready)
            else:
                (name, group), drain = pairs[0], case.act.drains
                lines = asking.of_plan(drains.plan(name, group=group, min_ready=ready, now=self.now), drains=drain)
        except Refused as refused:
            lines = [asking.Line("refused", f"it would be: {refused.sentence}", "bad")]
        return {"lines": lines, "rooms": asking.rooms(impact.alive(pairs, now=self.now))}

    def _note(self, target: str, status: int, outcome: str) -> None:
        self.note(f"instance.{self.kwargs['name']}", target, status=status, outcome=outcome)


def _in_words(case: Case, results: Sequence[Result]) -> str:
    if len(results) == 1:
        return f"{results[0].sentence.rstrip('.')}."
    unchanged = sum(result.did is not None and not result.did.changed for result in results)
    kept = f"; {unchanged} of them were so already" if unchanged else ""
    return f"{case.act.label}: {len(results)} done, {asking.named(result.target.title for result in results)}{kept}."


urlpatterns = [path("act/<str:name>", Acting.as_view(), name="act")]
