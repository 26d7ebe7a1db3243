"""What is tried in the admin, for the audit: allowed or not, with the reason that was given."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from controlplane.access.roles import LEAST_ROLE
from controlplane.acts import noting

from .rights import may, who


def note(
    request: HttpRequest, action: str, target: str, *, status: int, outcome: str, reason: str = "", allowed: bool = True
) -> None:
    noting.note(who(request), action, target, status=status, outcome=outcome, reason=reason, allowed=allowed)


def demand(request: HttpRequest, verb: str, action: str, target: str) -> None:
    """Refuse whoever may not, with a sentence; an attempt (anything but looking) is kept."""
    if may(request, verb):
        return
    sentence = f"this needs the role {LEAST_ROLE[verb].name.lower()}"
    if request.method not in ("GET", "HEAD"):
        reason = request.POST.get("reason", "")
        note(request, action, target, status=403, outcome=sentence, reason=reason, allowed=False)
    raise PermissionDenied(sentence)
