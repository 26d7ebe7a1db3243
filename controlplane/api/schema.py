"""OpenAPI from what views declare: the same serializers that check requests, and the problems each method may answer."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from .fields import NO_NUL
from .problems import MEDIA_TYPE

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "errors", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "Stable, for machines."},
        "detail": {"type": "string", "description": "A sentence."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "code", "detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "JSON pointer into the body, or ?parameter."},
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                },
            },
        },
        "request_id": {"type": "string"},
        "difference": {
            "type": "object",
            "description": "With 412: what differs from what was expected, and what it is now.",
            "additionalProperties": {},
        },
    },
}
SAYS = {
    400: "What was sent is malformed; `errors` points at it.",
    401: "Nobody known: no token, or one that does not work; no session.",
    403: "Known, but not allowed to do this.",
    404: "There is no such thing.",
    405: "There is no such method here.",
    409: "Refused as things stand; or a request with this Idempotency-Key is in flight.",
    410: "This position is not part of the ledger any more: begin again with a snapshot.",
    412: "Changed since you saw it; `difference` says how.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "Understood, and not to be had as asked; or this Idempotency-Key was used for another request.",
    428: "If-Match is required.",
    500: "A bug of the control plane.",
    503: "The database or the engine does not answer now; try again.",
}
IF_MATCH = "The ETag of what you saw, or `*`. When it is something else by now: 412."
IDEMPOTENCY = "Sent again with the same key within a day, the first answer is given again and nothing is done twice."


NOTHING = {"type": "string", "maxLength": 0}


class ApiSchema(AutoSchema):
    """Reads `verbs`, `queries`, `bodies`, `answers`, `matched` of a `View`."""

    def get_override_parameters(self) -> list[Any]:
        view = self.view
        found: list[Any] = [shape() for shape in [view.queries.get(self.method)] if shape]
        if self.method in view.matched:
            found.append(
                OpenApiParameter(
                    "If-Match",
                    {"type": "string", "pattern": r'^(\*|"[0-9]{1,18}")$'},
                    OpenApiParameter.HEADER,
                    required=view.matched[self.method],
                    description=IF_MATCH,
                )
            )
        if self.method in view.tagged:
            fine = [str(status) for status in view.answers[self.method] if status < 400]
            said = view.tagged[self.method]
            found.append(OpenApiParameter("ETag", str, OpenApiParameter.HEADER, response=fine, description=said))
            if 304 in view.answers[self.method]:
                seen = "An ETag: when it is the same still, the answer is 304, and empty."
                found.append(OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description=seen))
        if self.method == "POST" and not view.reads:
            key = {"type": "string", "pattern": "^[!-~]{1,128}$"}
            found.append(OpenApiParameter("Idempotency-Key", key, OpenApiParameter.HEADER, description=IDEMPOTENCY))
        return found

    def get_request_serializer(self) -> Any:
        return self.view.bodies.get(self.method)

    def get_response_serializers(self) -> Any:
        said = self.view.answers.get(self.method, {})
        found: dict[Any, Any] = {}
        for status, shape in said.items():
            found[(status, "application/json")] = shape if shape is not None else OpenApiResponse(description="Nothing")
        for status in self._problems():
            found[(status, MEDIA_TYPE)] = OpenApiResponse(
                {"$ref": "#/components/schemas/Problem"}, description=SAYS[status]
            )
        return found

    def _problems(self) -> list[int]:
        view, method = self.view, self.method
        found = {400, 401, 403, 405, 500, 503}
        if "{" in self.path or method in view.bodies:
            found.add(404)
        if method in view.bodies:
            found |= {409, 413, 415, 422}
        if method == "DELETE":
            found |= {409, 422}
        if method in view.matched:
            found |= {412} | ({428} if view.matched[method] else set())
        return sorted(found | set(getattr(view, "also", {}).get(method, ())))

    def get_operation_id(self) -> str:
        """`instances_name_cordon_post`, from the path: unique, and readable in generated clients."""
        words = re.sub(r"[{}]", "", self.path.split("/api/v1/", 1)[-1])
        return "_".join([*re.findall(r"[a-z0-9]+", words.lower()), self.method.lower()])

    def get_tags(self) -> list[str]:
        return [getattr(self.view, "subject", "") or self.path.split("/")[3]]

    def get_description(self) -> str:
        handler = getattr(self.view, self.method.lower(), None)
        return " ".join(((handler and handler.__doc__) or self.view.__class__.__doc__ or "").split())

    def get_summary(self) -> str | None:
        first = self.get_description().split(". ")[0].split(": ")[0].rstrip(".")
        return first or None

    def map_parsers(self) -> list[str]:
        return ["application/json"]


class StrictShape(OpenApiSerializerExtension):
    """Whoever sends a field that is not declared is told so; the schema says it too."""

    target_class = "controlplane.api.bodies.Strict"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        found: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        found["additionalProperties"] = False
        least = getattr(self.target, "at_least", 0)
        if least:
            found["minProperties"] = least
        return found


class TextShape(OpenApiSerializerFieldExtension):
    target_class = "controlplane.api.fields.Text"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        found: dict[str, Any] = auto_schema._map_serializer_field(self.target, direction, bypass_extensions=True)
        if direction == "request":
            found.setdefault("pattern", NO_NUL)
        return found


class RoomShape(OpenApiSerializerFieldExtension):
    target_class = "controlplane.api.fields.Room"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        # Of 19 digits not every number is a room; every room that is answered has so many at most.
        most = 18 if direction == "request" else 19
        return {"type": "string", "pattern": f"^[0-9]{{1,{most}}}$", "description": "A room: digits, as a string."}


class MomentShape(OpenApiSerializerFieldExtension):
    target_class = "controlplane.api.fields.Moment"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


class AsOfShape(OpenApiSerializerFieldExtension):
    target_class = "controlplane.api.fields.AsOf"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "string", "maxLength": 80}


class SlotShape(OpenApiSerializerFieldExtension):
    target_class = "controlplane.api.fields.SlotKey"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": r"^dp\d{1,4}\.cp\d{1,4}\.tp\d{1,4}\.pp\d{1,4}$",
            "example": "dp0.cp0.tp1.pp0",
        }


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "controlplane.api.authentication.ByToken"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "A token made by an admin: `pdcp_…`."}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "controlplane.api.authentication.BySession"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "A signed-in person; changes need the X-CSRFToken header.",
        }


def with_problem(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A postprocessing hook: the one component that no serializer describes, and texts that may be empty."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    for schema in schemas.values():
        for name, said in schema.get("properties", {}).items():
            # A pattern of ours lets nothing through as well: said twice, exactly one of the two could never be true.
            if said.get("oneOf", [None])[1:] == [NOTHING] and said["oneOf"][0].get("pattern") == NO_NUL:
                about = {key: value for key, value in said.items() if key != "oneOf"}
                schema["properties"][name] = {**said["oneOf"][0], **about}
    schemas["Problem"] = PROBLEM
    return result
