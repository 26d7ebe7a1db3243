"""Problem documents (RFC 9457): the only way in which this API says no."""

from __future__ import annotations

import http
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.http import HttpResponse

MEDIA_TYPE = "application/problem+json"

STATUS_OF_CODE = {
    "malformed": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "refused": 409,
    "conflict": 409,
    "exists": 409,
    "in_flight": 409,
    "cursor_gone": 410,
    "stale": 412,
    "too_large": 413,
    "if_match_missing": 428,
    "too_many": 429,
    "internal": 500,
    "timeout": 503,
    "unavailable": 503,
    "unreachable": 503,
}
"""What a refusal's code means on HTTP. Any other is 422: understood, and not to be had as asked."""

OTHERWISE = 422


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with what was sent. `pointer` is a JSON pointer into the body, or `?name` for a parameter."""

    pointer: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    code: str
    detail: str
    errors: tuple[Fault, ...] = ()
    difference: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "type": "about:blank",
            "title": http.HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "errors": [{"pointer": e.pointer, "code": e.code, "detail": e.detail} for e in self.errors],
            "request_id": request_id(),
        }
        if self.difference is not None:
            said["difference"] = dict(self.difference)
        return said

    def answer(self) -> HttpResponse:
        said = self.document()
        body = json.dumps(said, ensure_ascii=False).encode("utf-8", "backslashreplace")
        answer = HttpResponse(body, status=self.status, content_type=MEDIA_TYPE)
        answer["Cache-Control"] = "no-store"
        answer["X-Request-ID"] = said["request_id"]
        for name, value in self.headers.items():
            answer[name] = value
        return answer


def refusal(code: str, sentence: str, **more: Any) -> Problem:
    return Problem(STATUS_OF_CODE.get(code, OTHERWISE), code, sentence, **more)


def request_id() -> str:
    """What the logs of this request carry, so that a complaint can be matched with them."""
    return str(structlog.contextvars.get_contextvars().get("request_id") or uuid.uuid4())
