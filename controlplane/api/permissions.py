"""Whether they may: each view says which verb a method needs; a view that says nothing is denied to everybody."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import MethodNotAllowed, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from controlplane.access.roles import LEAST_ROLE, NOBODY, TOKEN_VERBS, Who


def needed(view: Any, method: str) -> tuple[str, ...]:
    """The verbs of which one is enough for this method of a view; none: nobody may."""
    said = getattr(view, "verbs", {}).get("GET" if method == "HEAD" else method, ())
    return (said,) if isinstance(said, str) else tuple(said)


class ByVerb(BasePermission):
    """Roles and tokens alike. The instance in the URL (`name`) is what a token may be bound to.

    Where a view finds out only later which instance it is about (`scope = "asked"`), it calls `view.permit(instance)`.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        method = request.method or ""
        if method not in view.allowed_methods:
            raise MethodNotAllowed(method)
        verbs, who = needed(view, method), request.auth or NOBODY
        if not who.known:
            # 401 for those who are nobody yet, 403 for those who signed in and have no role.
            return self._refuse(who, verbs, None) if request.user.is_authenticated else False
        if getattr(view, "scope", "path") == "asked":
            # A bound token is let in as far as its verbs go; which instance it asked about is checked by permit().
            allowed = any(who.may(verb, who.instance or None) for verb in verbs)
            return allowed or self._refuse(who, verbs, None)
        instance = view.kwargs.get("name")
        return any(who.may(verb, instance) for verb in verbs) or self._refuse(who, verbs, instance)

    def _refuse(self, who: Who, verbs: tuple[str, ...], instance: str | None) -> bool:
        raise PermissionDenied(why_not(who, verbs, instance))


def why_not(who: Who, verbs: tuple[str, ...], instance: str | None) -> str:
    """
    >>> why_not(Who("token:w", verbs=frozenset({"read"}), instance="a", via="token"), ("read",), "b")
    'this token is bound to instance a'
    """
    if not verbs:
        return "nobody may do this through the API"
    if who.via == "token":
        if not set(verbs) & set(TOKEN_VERBS):
            return "no token may do this: it needs an administrator who is signed in"
        if who.instance and who.instance != instance and any(verb in who.verbs for verb in verbs):
            return f"this token is bound to instance {who.instance}"
        return f"this token was not given the verb {' or '.join(verbs)}"
    least = min(LEAST_ROLE[verb] for verb in verbs)
    is_now = f"{who.name} is {'an' if who.role.name[0] in 'AO' else 'a'} {who.role.name.lower()}"
    now = is_now if who.role else f"{who.name} has no role"
    return f"{now}; this needs the role {least.name.lower()}"
