"""Who asks: a signed-in person, or a machine with a token. The same for requests, sockets and what they may still do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest

from controlplane.access import tokens
from controlplane.access.headers import token_in, token_in_raw
from controlplane.access.roles import NOBODY, Who, role_of


def who_of_request(request: Any) -> Who:
    """Whoever sent this HTTP request, Django's or DRF's; `known` is False for nobody, their address is there all the same.

    Whoever shows a token is asked for nothing else: a token that does not work makes them nobody, even with a session.
    """
    # Inside an authenticator, DRF's own `user` would ask that authenticator again.
    request = getattr(request, "_request", request)
    source = str(request.META.get("REMOTE_ADDR") or "")
    token = token_in(request.headers.get("X-PD-Token"), request.headers.get("Authorization"))
    if token is not None:
        return _by_token(token, source)
    return _by_session(getattr(request, "user", None), getattr(request, "session", None), source)


def who_of_scope(scope: Mapping[str, Any]) -> Who:
    """The same for a socket, behind Channels' session and auth middleware. Asks the database: call it from a thread."""
    client = scope.get("client")
    source = str(client[0]) if client else ""
    token = token_in_raw(dict(scope.get("headers") or ()))
    if token is not None:
        return _by_token(token, source)
    return _by_session(scope.get("user"), scope.get("session"), source)


def still(who: Who) -> bool:
    """Whether `who` may do at least what they could when they came. Three small queries; call it from a thread."""
    if not who.known:
        return False
    if who.via == "token":
        return _token_stands(who)
    # A fresh look at the session: signed out, expired, another password, another account.
    store = import_module(settings.SESSION_ENGINE).SessionStore(who.key)
    user = auth.get_user(cast(HttpRequest, SimpleNamespace(session=store))) if who.key else None
    return user is not None and user.get_username() == who.name and role_of(user) >= who.role


def _by_token(token: str, source: str) -> Who:
    return tokens.who_has(token, source=source, now=time.time()) or replace(NOBODY, via="token", source=source)


def _by_session(user: Any, session: Any, source: str) -> Who:
    if user is None or not user.is_authenticated:
        return replace(NOBODY, source=source)
    key = str(getattr(session, "session_key", None) or "")
    return Who(user.get_username(), role_of(user), source=source, key=key)


def _token_stands(who: Who) -> bool:
    now = time.time()
    return any(
        who.verbs <= key.verbs
        and key.instance in ("", who.instance)
        and (key.expires_at is None or now < key.expires_at)
        for key in tokens.keys(who.key)
    )
