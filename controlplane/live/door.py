"""Who may open a socket: the same people and machines as on HTTP, the same hosts and origins."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import auth
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.utils.http import is_same_domain

from controlplane.access.headers import token_in
from controlplane.access.identity import who_of_request
from controlplane.access.roles import READ, Who

from .codes import Closed, Code
from .topic import Topic

SCHEMES = {"ws": "http", "wss": "https"}


def enter(scope: Mapping[str, Any], topic: Topic) -> Who:
    """Whoever opens this socket, if they may follow `topic`. Asks the database. Raises Closed (4401, 4403)."""
    request = _as_request(scope)
    _check_origin(request)
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(_session_key(request))
    request.user = auth.get_user(request)
    who = who_of_request(request)
    if not who.known:
        if who.name:
            raise Closed(Code.NOT_ALLOWED, f"{who.name} has no role here")
        what = "this token is unknown, revoked or expired" if who.via == "token" else "sign in first, or send a token"
        raise Closed(Code.SIGNED_OUT, what)
    if not who.may(READ, topic.instance or None):
        if who.instance and READ in who.verbs:
            raise Closed(Code.NOT_ALLOWED, f"this token is for {who.instance} alone: say instance={who.instance}")
        raise Closed(Code.NOT_ALLOWED, f"{who.name} may not read {topic.instance or 'the fleet'}")
    return who


def _as_request(scope: Mapping[str, Any]) -> Any:
    """The handshake as Django sees requests, with its rules about hosts and proxies."""
    scheme = SCHEMES.get(scope.get("scheme", "ws"), "http")
    return ASGIRequest({**scope, "type": "http", "method": "GET", "scheme": scheme}, BytesIO())


def _session_key(request: Any) -> str | None:
    return request.COOKIES.get(settings.SESSION_COOKIE_NAME)


def _check_origin(request: Any) -> None:
    """Refuse pages of other sites: their sockets bring our cookies along. Machines send no Origin."""
    try:
        host = request.get_host()
    except DisallowedHost:
        raise Closed(Code.NOT_ALLOWED, "this host name is not ours (ALLOWED_HOSTS)") from None
    origin = request.headers.get("Origin")
    if origin is None:
        token = token_in(request.headers.get("X-PD-Token"), request.headers.get("Authorization"))
        if token is None and _session_key(request):
            raise Closed(Code.NOT_ALLOWED, "a signed-in page says where it is from: the header Origin is missing")
    elif origin != f"{request.scheme}://{host}" and not _is_trusted(origin):
        raise Closed(Code.NOT_ALLOWED, "this is a page of another site (CSRF_TRUSTED_ORIGINS)")


def _is_trusted(origin: str) -> bool:
    """Whether CSRF_TRUSTED_ORIGINS names it, by itself or by `https://*.example.org`."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        said = urlsplit(origin)
    except ValueError:
        return False
    patterns = [urlsplit(each) for each in settings.CSRF_TRUSTED_ORIGINS if "*" in each]
    return any(
        said.scheme == pattern.scheme and is_same_domain(said.netloc, pattern.netloc.lstrip("*"))
        for pattern in patterns
    )
