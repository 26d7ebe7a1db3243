"""What Django answers itself, before or without a view: problem documents under /api/, its own pages elsewhere."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views import defaults
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


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _ours(request):
        return problem_of(exception).answer()
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _ours(request):
        return problem_of(exception).answer()
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return nothing_here(request) if _ours(request) else defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if _ours(request):
        return refusal("internal", "this is a bug of the control plane; its log has it under the request id").answer()
    return defaults.server_error(request)


def _ours(request: HttpRequest) -> bool:
    return request.path_info.startswith(PREFIX)
