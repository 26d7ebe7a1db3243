"""Who may sign in: whoever has a role."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError

from controlplane.access import attempts
from controlplane.access.roles import Role, Who, role_of
from controlplane.access.views import PasswordForm

from .rights import VIA


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
