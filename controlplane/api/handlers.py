"""What Django answers itself under /api/, before or without a view: problem documents. Pages have their own elsewhere."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from .errors import problem_of
from .problems import refusal

PREFIX = "/api/"


@csrf_exempt
def nothing_here(request: HttpRequest, rest: str = "") -> HttpResponse:
    """The last path of the API."""
    said = "the API has no such path; /api/docs/ lists those it has"
    if request.path_info.startswith(f"{PREFIX}v1/") and request.path_info.endswith("/"):
        said += ", without a slash at the end"
    return refusal("not_found", said).answer()


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem_of(exception).answer()


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem_of(exception).answer()


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return nothing_here(request)


def server_error(request: HttpRequest) -> HttpResponse:
    return refusal("internal", "this is a bug of the control plane; its log has it under the request id").answer()


def concerns(request: HttpRequest) -> bool:
    """Whether whoever asked is a machine, or a person who reads what machines read."""
    return request.path_info.startswith(PREFIX)
