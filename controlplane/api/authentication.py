"""Who asks: a machine by its token, a person by their session. `request.auth` is a `Who` for both."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from controlplane.access.headers import token_in
from controlplane.access.identity import who_of_request
from controlplane.access.roles import Who

from .errors import BEARER


class Machine:
    """Stands where a user would: REST framework, and what logs a request, ask whether somebody is signed in."""

    is_authenticated = True
    is_active = True
    is_staff = False
    is_superuser = False
    pk = None

    def __init__(self, name: str) -> None:
        self.username = name

    def get_username(self) -> str:
        return self.username

    def __str__(self) -> str:
        return self.username


class ByToken(BaseAuthentication):
    """`Authorization: Bearer pdcp_…` or `X-PD-Token`. Never in the query, where every proxy would log it."""

    def authenticate(self, request: Request) -> tuple[Machine, Who] | None:
        if token_in(request.headers.get("X-PD-Token"), request.headers.get("Authorization")) is None:
            return None
        who = who_of_request(request)
        if not who.known:
            raise AuthenticationFailed("this token is unknown, expired or revoked")
        return Machine(who.name), who

    def authenticate_header(self, request: Request) -> str:
        return BEARER


class BySession(SessionAuthentication):
    """A signed-in person, with the CSRF token that pages have."""

    def authenticate(self, request: Request) -> tuple[Any, Who] | None:
        found = super().authenticate(request)
        return (found[0], who_of_request(request)) if found is not None else None

    def authenticate_header(self, request: Request) -> str:
        return BEARER
