"""What every view of this API is: its declarations, and the way from a request to an answer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import structlog
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import PermissionDenied
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access.roles import NOBODY, Who

from . import audit, errors, etags, idempotency
from .authentication import BySession, ByToken
from .bodies import LIMIT_BYTES, Query, Strict, parameters, parse, read
from .permissions import ByVerb, needed, why_not
from .problems import request_id
from .schema import ApiSchema

log = structlog.get_logger(__name__)

Verbs = str | tuple[str, ...]


class AlwaysJson(BaseContentNegotiation):
    """One format, whatever the client would like best: a browser gets JSON, not a page that says 406."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class View(APIView):
    """Declared by method: who may, what is sent, what is answered. From the same declarations OpenAPI is written.

    A handler finds `self.who`, `self.now`, `self.query` and `self.body` checked, and returns `self.say(document)`.
    """

    verbs: ClassVar[Mapping[str, Verbs]] = {}
    scope: ClassVar[str] = "path"
    """Where the instance stands that a token may be bound to: in the `path`, or `asked` for in query, body or object."""
    queries: ClassVar[Mapping[str, type[Query]]] = {}
    bodies: ClassVar[Mapping[str, type[Strict]]] = {}
    answers: ClassVar[Mapping[str, Mapping[int, Any]]] = {}
    body_limit: ClassVar[int] = LIMIT_BYTES
    matched: ClassVar[Mapping[str, bool]] = {}
    """Methods that mind If-Match; True: they insist on it."""
    tagged: ClassVar[Mapping[str, str]] = {}
    """Methods whose answer has an ETag, and what it stands for. Those that answer 304 mind If-None-Match."""
    reads: ClassVar[bool] = False
    """A POST that changes nothing: no audit row unless it was denied, and no Idempotency-Key."""
    reports: ClassVar[bool] = False
    """What machines say many times a minute: no audit row unless it was denied."""
    action: ClassVar[str] = ""

    authentication_classes = [ByToken, BySession]
    permission_classes = [ByVerb]
    content_negotiation_class = AlwaysJson
    renderer_classes = [JSONRenderer]
    parser_classes = [JSONParser]
    metadata_class = None
    schema = ApiSchema()
    http_method_names = ["get", "head", "post", "patch", "delete"]

    who: Who = NOBODY
    now: float
    query: dict[str, Any]
    body: dict[str, Any]
    expected: int | None = None
    _claim: idempotency.Claim | None = None
    _permitted: bool = False

    def get_exception_handler(self) -> Any:
        return errors.handle

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.now, self.query, self.body = time.time(), {}, {}
        self.who = replace(NOBODY, source=str(request.META.get("REMOTE_ADDR") or ""))
        super().initial(request, *args, **kwargs)
        self._parse(request._request)

    def perform_authentication(self, request: Request) -> None:
        self.who = request.auth or self.who

    def _parse(self, request: HttpRequest) -> None:
        method = "GET" if request.method == "HEAD" else request.method or ""
        self.query = parameters(request.GET, self.queries.get(method, Query))
        if method in self.matched:
            self.expected = etags.expected(request, required=self.matched[method])
        shape = self.bodies.get(method)
        raw = read(request, limit=self.body_limit) if shape is not None else b""
        if shape is not None:
            self.body = parse(raw, shape)
        if method == "POST" and not self.reads:
            self._claim = idempotency.claim(request, self.who, raw, now=self.now)

    def permit(self, instance: str | None) -> None:
        """For `scope = "asked"`: whether they may do it to this instance (None: to all of them)."""
        verbs = needed(self, self.request.method)
        if not any(self.who.may(verb, instance) for verb in verbs):
            raise PermissionDenied(why_not(self.who, verbs, instance))
        self._permitted = True

    def say(self, document: Any, *, status: int = 200, etag: str | None = None, location: str = "") -> Response:
        answer = Response(document, status=status)
        if etag is not None:
            answer["ETag"] = etag
        if location:
            answer["Location"] = location
        return answer

    def handle_exception(self, exc: Exception) -> HttpResponse:
        if isinstance(exc, idempotency.Answered):
            # They were allowed the first time, by the same token.
            self._permitted = True
            return exc.answer
        found: HttpResponse = super().handle_exception(exc)
        return found

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        if self.scope == "asked" and self.who.instance and not self._permitted and response.status_code < 400:
            # Whoever wrote this view forgot to ask: better nobody than everybody.
            response = errors.handle(PermissionDenied(why_not(self.who, needed(self, request.method), "")), {})
        response = super().finalize_response(request, response, *args, **kwargs)
        response.setdefault("Cache-Control", "private, no-cache" if "ETag" in response else "no-store")
        response.setdefault("X-Request-ID", request_id())
        if isinstance(response, Response):
            response.render()
        if request.method not in ("GET", "HEAD"):
            self._remember(request._request, response)
        return response

    def kept(self, document: dict[str, Any]) -> dict[str, Any]:
        """What may be stored of an answer and be given out again. Views that answer with secrets take them out."""
        return document

    def _remember(self, request: HttpRequest, response: HttpResponse) -> None:
        said = _document(response)
        claim, self._claim = self._claim, None
        if claim is not None:
            try:
                claim.keep(response, json.dumps(self.kept(said), ensure_ascii=False).encode())
            except (DatabaseError, InterfaceError) as problem:
                # The deed is done, and its answer goes out; a second try will hear "in flight" for a while.
                log.warning("answer_not_kept", problem=type(problem).__name__)
        denied = response.status_code in audit.DENIED
        if denied or not (self.reads or self.reports):
            reason = self.body.get("reason") or self.query.get("reason") or ""
            audit.note(
                request,
                self.who,
                response,
                action=self.action_of(request),
                target=audit.target(self.kwargs, self.body),
                said={**self.kept(said), "reason": reason},
            )

    def action_of(self, request: HttpRequest) -> str:
        return self.action or f"{request.method} {type(self).__name__}"


def _document(response: HttpResponse) -> dict[str, Any]:
    try:
        said = json.loads(response.content)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
