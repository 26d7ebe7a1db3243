"""What is asked of whoever acts: why, and what the action needs besides."""

from __future__ import annotations

from typing import Any

from django import forms

from controlplane.commands.transaction import MAX_REASON

from .table import Act, Asked

WEEK_MINUTES = 7 * 24 * 60


class ReasonForm(forms.Form):
    """The reason, and those of the other fields that the action asks for."""

    reason = forms.CharField(
        max_length=MAX_REASON,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60}),
        help_text="Kept in the ledger for ever, beside your name.",
    )
    deadline_minutes = forms.IntegerField(
        label="Deadline (minutes)",
        required=False,
        min_value=1,
        max_value=WEEK_MINUTES,
        help_text="From the confirmation on. After it the drain is overdue, and goes on. Blank: none.",
    )
    min_ready = forms.IntegerField(
        label="Min ready",
        initial=0,
        min_value=0,
        max_value=10_000,
        help_text="Refused if fewer of the same role would stay ready. 0: no budget.",
    )
    to = forms.ChoiceField(
        label="And then",
        choices=[("enabled", "enabled: it may be chosen again"), ("cordoned", "cordoned: nothing new is sent to it")],
        initial="enabled",
    )

    def __init__(self, act: Act, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in set(self.fields) - {"reason", *act.asks}:
            del self.fields[name]

    def asked(self, actor: str, *, now: float) -> Asked:
        given = self.cleaned_data
        minutes = given.get("deadline_minutes")
        return Asked(
            actor,
            given["reason"],
            deadline_at=now + 60 * minutes if minutes else None,
            min_ready=given.get("min_ready") or 0,
            to=given.get("to") or "enabled",
        )
