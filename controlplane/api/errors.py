"""Every exception becomes a problem document: refusals, what the framework refuses, a database that is away, our own bugs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, ProgrammingError
from django.http import Http404, HttpResponse
from rest_framework import exceptions

from controlplane.domain.errors import Refused

from .problems import Fault, Problem, refusal

log = structlog.get_logger(__name__)

RETRY_SECONDS = "1"
BEARER = 'Bearer realm="pd control plane"'
FRAMEWORK_CODES = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    415: "unsupported_media_type",
    429: "too_many",
}
NOT_MIGRATED = ("no such table", "no such column")


class Malformed(Refused):
    """What was sent is wrong in ways that can be pointed at."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        first, more = faults[0], len(faults) - 1
        where = first.pointer.lstrip("/?")
        rest = f" (and {more} more)" if more else ""
        said = f"{where}: {first.detail}" if where else first.detail
        super().__init__(f"{said}{rest}", code="malformed")
        self.faults = tuple(faults)


def handle(problem: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """REST framework's EXCEPTION_HANDLER; it never leaves anything to Django's HTML pages."""
    return problem_of(problem).answer()


def problem_of(problem: Exception) -> Problem:
    if isinstance(problem, Refused):
        return _refused(problem)
    if isinstance(problem, exceptions.APIException):
        return _framework(problem)
    if isinstance(problem, Http404):
        return refusal("not_found", str(problem) or "there is nothing here")
    if isinstance(problem, PermissionDenied):
        return refusal("forbidden", str(problem) or "this is not allowed")
    if isinstance(problem, RequestDataTooBig):
        return refusal("too_large", "the body is larger than the limit")
    if isinstance(problem, SuspiciousOperation):
        return refusal("malformed", "the request is malformed")
    if isinstance(problem, (DatabaseError, InterfaceError)):
        return _database(problem)
    log.error("api_bug", exc_info=problem)
    return refusal("internal", "this is a bug of the control plane; its log has it under the request id")


def _refused(refused: Refused) -> Problem:
    difference = getattr(refused, "difference", None)
    faults = refused.faults if isinstance(refused, Malformed) else ()
    found = refusal(refused.code, refused.sentence, errors=faults, difference=difference)
    return _later(found) if found.status in (429, 503) else found


def _later(found: Problem) -> Problem:
    return Problem(
        found.status, found.code, found.detail, found.errors, found.difference, {"Retry-After": RETRY_SECONDS}
    )


def _framework(problem: exceptions.APIException) -> Problem:
    status, headers = problem.status_code, {}
    if isinstance(problem, exceptions.ValidationError):
        faults = tuple(faults_of(problem.detail))
        return _refused(Malformed(faults)) if faults else refusal("malformed", "the request is malformed")
    if status == 401:
        headers["WWW-Authenticate"] = getattr(problem, "auth_header", BEARER)
    wait = getattr(problem, "wait", None)
    if wait is not None:
        headers["Retry-After"] = str(int(wait) + 1)
    return Problem(status, FRAMEWORK_CODES.get(status, "refused"), str(problem.detail), headers=headers)


def _database(problem: Exception) -> Problem:
    if isinstance(problem, IntegrityError):
        return refusal("conflict", "somebody else changed this a moment ago; look and try again")
    if isinstance(problem, DataError):
        return refusal("malformed", "a value is out of the range that can be stored")
    log.warning("api_database", problem=type(problem).__name__, said=str(problem)[:200])
    stale = isinstance(problem, ProgrammingError) or any(words in str(problem) for words in NOT_MIGRATED)
    sentence = "the database is not up to date: run manage.py migrate_all" if stale else "the database does not answer"
    return _later(refusal("unavailable", sentence))


def faults_of(detail: Any, pointer: str = "") -> Iterator[Fault]:
    """REST framework's nested complaints, flat.

    >>> from rest_framework.exceptions import ErrorDetail as Said
    >>> list(faults_of({"reports": [{}, {"dp": [Said("too small", "min_value")]}]}))
    [Fault(pointer='/reports/1/dp', code='min_value', detail='too small')]
    """
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from faults_of(inner, pointer if name == "non_field_errors" else f"{pointer}/{_escaped(str(name))}")
    elif isinstance(detail, (list, tuple)):
        for place, inner in enumerate(detail):
            # A list of complaints about one thing, or a list of things, each with complaints of its own.
            nested = isinstance(inner, (Mapping, list, tuple))
            yield from faults_of(inner, f"{pointer}/{place}" if nested else pointer)
    else:
        yield Fault(pointer, str(getattr(detail, "code", "invalid")), str(detail))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
