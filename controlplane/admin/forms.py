"""What is asked of whoever acts: why, and what the action needs besides; and who may sign in at all."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from controlplane.access import attempts
from controlplane.access.roles import Role, Who, role_of
from controlplane.access.views import PasswordForm
from controlplane.commands.transaction import MAX_REASON

from .acts import Act, Asked
from .rights import VIA

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


class SignInForm(PasswordForm):
    """Whoever has a role may enter; `is_staff` means nothing here. Tries are limited as on the page that all use."""

    def confirm_login_allowed(self, user: Any) -> None:
        super().confirm_login_allowed(user)
        if role_of(user) is Role.NOBODY:
            source = self.request.META.get("REMOTE_ADDR") or "" if self.request else ""
            who = Who(user.get_username(), via=VIA, source=source)
            attempts.note(who, "sign-in", user.get_username(), allowed=False, status=403, outcome="has no role")
            raise ValidationError(
                "This account has no role yet: an administrator makes it a viewer, an operator or an admin.",
                code="no_role",
            )
