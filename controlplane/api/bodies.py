"""What is sent: JSON objects of a bounded size whose every field is known, and parameters likewise."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from django.http import HttpRequest, QueryDict
from rest_framework import serializers
from rest_framework.exceptions import UnsupportedMediaType

from controlplane.domain.errors import Refused

from .errors import Malformed
from .fields import Choice, Flag, Text, Whole
from .pagination import DEFAULT_LIMIT, MOST
from .problems import Fault

JSON = "application/json"
LIMIT_BYTES = 256 * 1024
MAX_REASON = 2000
DEEPEST = 64


class Strict(serializers.Serializer):
    """A serializer that names what it does not know, instead of dropping it."""

    textual = False

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        unknown = {}
        if isinstance(data, Mapping):
            unknown = {name: [self._unknown(str(name))] for name in data if name not in self.fields}
        try:
            known = super().to_internal_value(data)
        except serializers.ValidationError as problem:
            raise serializers.ValidationError({**problem.detail, **unknown}) from None
        if unknown:
            raise serializers.ValidationError(unknown)
        return dict(known)

    def _unknown(self, name: str) -> serializers.ErrorDetail:
        near = difflib.get_close_matches(name[:100], list(self.fields), n=1)
        known = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.fields) or 'none'}"
        what = "parameter" if self.textual else "field"
        return serializers.ErrorDetail(f"there is no such {what}; {known}", code="unknown")


class Query(Strict):
    """Parameters of a URL."""

    textual = True


class Paged(Query):
    """Parameters of a list."""

    cursor = Text(required=False, max_length=400, help_text="Go on after the page whose `next` this was.")
    limit = Whole(required=False, default=DEFAULT_LIMIT, min_value=1, max_value=MOST, help_text="At most so many.")


class Reason(Strict):
    """What every change may be given: why."""

    reason = Text(
        required=False, default="", allow_blank=True, max_length=MAX_REASON, help_text="Why; the ledger keeps it."
    )


class WhyDelete(Query):
    reason = Text(
        required=False, default="", allow_blank=True, max_length=MAX_REASON, help_text="Why; the ledger keeps it."
    )


def read(request: HttpRequest, *, limit: int = LIMIT_BYTES) -> bytes:
    """The raw body, never more than `limit` bytes. What is not JSON is refused unread."""
    declared = request.META.get("CONTENT_LENGTH") or "0"
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    # Not request.body: it would first read everything into memory, and without a Content-Length nothing.
    raw = request.read(limit + 1)
    if len(raw) > limit:
        raise _too_large(limit)
    request._body = raw
    kind = request.content_type or ""
    charset = str((request.content_params or {}).get("charset", "utf-8")).lower()
    if raw and (kind != JSON or charset not in ("utf-8", "utf8")):
        raise UnsupportedMediaType(kind, detail=f"send {JSON} in UTF-8, not {kind or 'a body without a type'}")
    return bytes(raw)


def parse(raw: bytes, shape: type[Strict]) -> dict[str, Any]:
    """The fields of a JSON object, checked. Raises Malformed with a pointer to each fault."""
    try:
        value = msgspec.json.decode(raw) if raw else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        said = str(problem)[:200] if not isinstance(problem, RecursionError) else "it is nested too deeply"
        raise Malformed([Fault("", "not_json", f"the body is not JSON: {said}")]) from None
    if not isinstance(value, dict):
        raise Malformed([Fault("", "not_an_object", "the body must be a JSON object")])
    if _deeper(value, DEEPEST):
        raise Malformed([Fault("", "too_deep", f"the body is nested more than {DEEPEST} levels")])
    if twice := _said_twice(raw):
        raise Malformed(
            [Fault("", "repeated", f"the body says {twice[:100]} twice, and nobody can tell which is meant")]
        )
    return _checked(shape(data=value))


def parameters(given: QueryDict, shape: type[Query]) -> dict[str, Any]:
    """The parameters of a URL, checked: an unknown one is refused, for a filter that is ignored shows too much."""
    twice = [name for name, values in given.lists() if len(values) > 1]
    if twice:
        raise Malformed([Fault(f"?{name}", "repeated", "this parameter may be given once") for name in twice])
    try:
        return _checked(shape(data=given.dict()))
    except serializers.ValidationError as problem:
        raise _named(problem) from None


def _checked(form: Strict) -> dict[str, Any]:
    form.is_valid(raise_exception=True)
    return dict(form.validated_data)


def _named(problem: serializers.ValidationError) -> Malformed:
    faults = [
        Fault("?" if name == "non_field_errors" else f"?{name}", str(getattr(detail, "code", "invalid")), str(detail))
        for name, details in problem.detail.items()
        for detail in details
    ]
    return Malformed(faults)


def _said_twice(raw: bytes) -> str:
    """A name that one of the objects in this body, which is JSON, has twice; else ""."""
    found: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        found.extend(name for name, count in Counter(names).items() if count > 1)

    json.loads(raw or b"{}", object_pairs_hook=note)
    return found[0] if found else ""


def _deeper(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_deeper(inner, levels - 1) for inner in value.values())
    if isinstance(value, list):
        return levels == 0 or any(_deeper(inner, levels - 1) for inner in value)
    return False


def _too_large(limit: int) -> Refused:
    return Refused(f"the body is larger than the limit of {limit} bytes", code="too_large")


__all__ = ["Choice", "Flag", "Paged", "Query", "Reason", "Strict", "Text", "Whole", "parameters", "parse", "read"]
