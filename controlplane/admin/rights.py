"""Who looks at an admin page: the role, asked of the database once a request, and what the audit is told of them."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest

from controlplane.access.roles import LEAST_ROLE, Role, Who, role_of

VIA = "admin"


def role_on(request: HttpRequest) -> Role:
    # Dozens of permissions are asked for a page; the groups of its user are read for the first of them.
    kept = cast(Any, request)
    if not hasattr(kept, "_role"):
        kept._role = role_of(request.user)
    return cast(Role, kept._role)


def may(request: HttpRequest, verb: str) -> bool:
    return role_on(request) >= LEAST_ROLE[verb]


def who(request: HttpRequest) -> Who:
    """Whoever acts through the admin, as the ledger and the audit know them."""
    return Who(
        request.user.get_username(),
        role_on(request),
        via=VIA,
        source=request.META.get("REMOTE_ADDR") or "",
        key=request.session.session_key or "",
    )
