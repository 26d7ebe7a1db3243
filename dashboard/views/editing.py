"""What dialogs share that are a form about one thing: an instance, a router, a gateway, a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.http import HttpResponse, QueryDict

from controlplane.access.roles import OPERATE
from controlplane.commands.transaction import MAX_REASON
from controlplane.domain.errors import Refused
from dashboard.errors import STATUS
from dashboard.presenters.asking import Line

from .asking import IDS, UNANSWERED, dressed, not_yet
from .dialogs import Dialog

EDIT = "dashboard/acting/edit.html"


class WhyForm(forms.Form):
    """Every change says why."""

    reason = forms.CharField(label="why", max_length=MAX_REASON)

    def __init__(self, data: QueryDict | None = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial, auto_id=IDS)
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])
        first = next(iter(self.fields.values()))
        first.widget.attrs["autofocus"] = True
        dressed(self)


class Editing(Dialog):
    """Subclasses say what it is about (`subject`), what the form holds, and `change` it."""

    needs: ClassVar[str] = OPERATE
    action: ClassVar[str]
    """As the audit names it."""

    form: ClassVar[type[WhyForm]] = WhyForm
    go: ClassVar[str]
    danger: ClassVar[bool] = False
    means: ClassVar[str] = ""

    @property
    def on(self) -> str:
        return str((self.request.POST if self.request.method == "POST" else self.request.GET).get("on", ""))

    def subject(self) -> Any:
        """The row that it is about; None for a new one. Raises Refused (not_found)."""
        return None

    def name(self, row: Any) -> str:
        """What the heading, and the audit, call it."""
        return str(row.name) if row is not None else self.request.POST.get("name", "")

    def initial(self, row: Any) -> dict[str, Any]:
        return {}

    def lines(self, row: Any) -> Sequence[Line]:
        return ()

    def version(self, row: Any) -> int | None:
        return getattr(row, "version", None)

    def change(self, row: Any, given: dict[str, Any], expected: int | None) -> str:
        """Do it; the sentence that says so. Raises Refused."""
        raise NotImplementedError

    def shells(self, base: str, row: Any, given: Mapping[str, Any]) -> tuple[str, str]:
        """curl, and our own command where there is one."""
        raise NotImplementedError

    def ask(self) -> HttpResponse:
        row = self._known()
        return self._shown(row, self.form(initial=self.initial(row)), self.version(row))

    def act(self) -> HttpResponse:
        row, form = self._known(), self.form(self.request.POST)
        expected = _number(self.request.POST.get("expected", ""))
        if expected is None and self.version(row) is not None:
            self._note(row, STATUS["malformed"], "it does not say which version was shown")
            raise Refused("this form does not say which version it was shown for; open it again", code="malformed")
        if self.request.POST.get("step") == "look":
            not_yet(form)
            return self._shown(row, form, expected)
        if not form.is_valid():
            self._note(row, UNANSWERED, "the answers do not hold")
            return self._shown(row, form, expected, status=UNANSWERED)
        try:
            sentence = self.change(row, form.cleaned_data, expected)
        except Refused as refused:
            status = STATUS.get(refused.code, 409)
            self._note(row, status, refused.sentence)
            if refused.code == "forbidden":
                raise
            moved = _differences(refused)
            # What is shown now is what the next try is compared with.
            return self._shown(row, form, self.version(row), moved=moved, problem=refused.sentence, status=status)
        self._note(row, 200, sentence)
        return self.finished(sentence)

    def finished(self, sentence: str) -> HttpResponse:
        return self.done(f"{sentence.rstrip('.')}.")

    def _known(self) -> Any:
        target = self.on or self.request.POST.get("name", "")
        self.demand(self.needs, self.action, target)
        try:
            row = self.subject()
        except Refused as refused:
            if self.request.method == "POST":
                self.note(self.action, target, status=STATUS.get(refused.code, 409), outcome=refused.sentence)
            raise
        what = self.name(row) if row is not None else ""
        self.heading = f"{self.go} {what}?" if row is not None else self.go
        return row

    def _shown(
        self,
        row: Any,
        form: WhyForm,
        expected: int | None,
        *,
        moved: Sequence[str] = (),
        problem: str = "",
        status: int = 200,
    ) -> HttpResponse:
        given = form.cleaned_data if form.is_bound else {**form.initial}
        curl, cli = self.shells(self.request.build_absolute_uri("/").rstrip("/"), row, given)
        context = {
            "url": self.request.path,
            "form": form,
            "on": self.on,
            "expected": expected,
            "lines": self.lines(row),
            "moved": moved,
            "problem": problem,
            "curl": curl,
            "cli": cli,
        }
        return self.show(EDIT, context, status=status)

    def _note(self, row: Any, status: int, outcome: str) -> None:
        self.note(self.action, self.name(row), status=status, outcome=outcome)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _differences(refused: Refused) -> list[str]:
    """What a stale change was refused for, as it was believed to be and as it is."""
    found: Mapping[str, Mapping[str, Any]] = getattr(refused, "difference", {})
    return [
        f"{name}: {_said(of['expected'])} → {_said(of['now'])}" if "expected" in of else f"{name}: {_said(of['now'])}"
        for name, of in found.items()
    ]


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value[:8])) + (" …" if len(value) > 8 else "") or "none"
    return "none" if value in (None, "") else str(value)
