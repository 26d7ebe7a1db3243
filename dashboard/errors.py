"""Pages for what goes wrong: what happened, why, what to do next, and the request id to find it in the log."""

from __future__ import annotations

import structlog
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.csrf import requires_csrf_token

from controlplane.api import handlers
from controlplane.domain.errors import Refused

log = structlog.get_logger(__name__)

STATUS = {
    "malformed": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "stale": 412,
    "cursor_gone": 410,
    "unavailable": 503,
}
"""The status of each code of `Refused`; whatever else it is, is 409."""

TITLES = {
    400: "This cannot be read",
    401: "Sign in first",
    403: "Not allowed",
    404: "Not here",
    405: "Not this way",
    409: "Not possible now",
    410: "No longer here",
    412: "Changed meanwhile",
    500: "This failed here",
    503: "Not now",
}


def refused(request: HttpRequest, refusal: Refused) -> HttpResponse:
    return problem(request, STATUS.get(refusal.code, 409), refusal.sentence)


def away(request: HttpRequest, trouble: Exception) -> HttpResponse:
    log.warning("page_without_database", path=request.path, problem=type(trouble).__name__)
    # A change may have been committed before it went away: whoever only looked can be sure, whoever acted cannot.
    so = "look whether it was done before you try again" if request.method == "POST" else "try again in a moment"
    return problem(request, 503, f"the database does not answer; {so}")


def problem(request: HttpRequest, status: int, sentence: str) -> HttpResponse:
    """A page that stands on its own: it asks no database, so that it can be shown whatever is away."""
    context = {
        "status": status,
        "title": TITLES.get(status, "Not possible"),
        "sentence": sentence[:1].upper() + sentence[1:].rstrip("."),
        "request_id": request_id(),
        "theme": request.COOKIES.get("pdcp_theme", "auto"),
    }
    response = render(request, "dashboard/problem.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


def request_id() -> str:
    """The id that every log line of this request carries; blank outside of one."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


# What Django answers itself, before or without a view: a problem document under /api/, a page everywhere else.
@requires_csrf_token
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if handlers.concerns(request):
        return handlers.bad_request(request, exception)
    return problem(request, 400, "this request makes no sense here")


@requires_csrf_token
def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if handlers.concerns(request):
        return handlers.permission_denied(request, exception)
    return problem(request, 403, str(exception) or "your account may not do this")


@requires_csrf_token
def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    if handlers.concerns(request):
        return handlers.permission_denied(request, PermissionDenied(reason))
    said = "this form does not belong to your session, as after signing in anew; nothing was done, load the page again"
    return problem(request, 403, said)


@requires_csrf_token
def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if handlers.concerns(request):
        return handlers.page_not_found(request, exception)
    return problem(request, 404, f"there is no page {request.path}")


def server_error(request: HttpRequest) -> HttpResponseBase:
    if handlers.concerns(request):
        return handlers.server_error(request)
    return problem(request, 500, "this is a bug of the control plane; its log has it under the request id")
