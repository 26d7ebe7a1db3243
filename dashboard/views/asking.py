"""Forms of dialogs: short labels, one line each, and classes instead of styles."""

from __future__ import annotations

from typing import Any

from django import forms

from controlplane.acts.asking import ReasonForm
from controlplane.acts.table import Act

UNANSWERED = 422
"""The status of answers that do not hold."""

IDS = "act-%s"
"""Fields of a dialog share the page with those of the page itself."""

DEADLINES = (
    ("", "none"),
    ("5", "5 min, then overdue"),
    ("10", "10 min, then overdue"),
    ("30", "30 min, then overdue"),
    ("60", "1 h, then overdue"),
    ("240", "4 h, then overdue"),
    ("1440", "24 h, then overdue"),
)


def dressed(form: forms.Form) -> None:
    for name, field in form.fields.items():
        widget = field.widget
        if isinstance(widget, forms.CheckboxInput | forms.CheckboxSelectMultiple):
            widget.attrs["class"] = "form-check-input"
        elif isinstance(widget, forms.Select):
            widget.attrs["class"] = "form-select"
        else:
            widget.attrs |= {"class": "form-control", "autocomplete": "off"}
        if name == "reason":
            widget.attrs |= {"placeholder": "kept in the ledger, beside your name"}


def not_yet(form: forms.Form) -> None:
    """Somebody is still answering: what is missing is no fault yet."""
    for name, faults in form.errors.as_data().items():
        if all(fault.code == "required" for fault in faults):
            del form.errors[name]


class AskForm(ReasonForm):
    """The questions of an action on instances."""

    def __init__(self, act: Act, *args: Any, **kwargs: Any) -> None:
        super().__init__(act, *args, auto_id=IDS, **kwargs)
        reason = self.fields["reason"]
        reason.label, reason.help_text, reason.widget = "why", "", forms.TextInput(attrs={"autofocus": True})
        if "deadline_minutes" in self.fields:
            deadline = self.fields["deadline_minutes"]
            deadline.label, deadline.help_text, deadline.widget = "deadline", "", forms.Select(choices=DEADLINES)
        if "min_ready" in self.fields:
            ready = self.fields["min_ready"]
            ready.label, ready.required = "must stay", False
            ready.help_text = "instances of the role that can be sent work; with fewer it is refused"
        if "to" in self.fields:
            self.fields["to"].label = "and then"
        dressed(self)

    def answers(self) -> dict[str, Any]:
        """What was answered so far, whether it holds or not."""
        if not self.is_bound:
            return {name: field.initial for name, field in self.fields.items() if field.initial is not None}
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
