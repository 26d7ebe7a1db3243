"""A client of the API that holds every answer against the OpenAPI document: what is answered is what is promised."""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import resolve
from jsonschema import Draft202012Validator, FormatChecker

from controlplane.access import tokens

V1 = "/api/v1/"
ADDRESSES = itertools.count(250)


@cache
def openapi() -> dict[str, Any]:
    from drf_spectacular.generators import SchemaGenerator
    from drf_spectacular.settings import patched_settings

    from controlplane.api.views.docs import HOOKS

    with patched_settings(HOOKS):
        return SchemaGenerator().get_schema(request=None, public=True)


@cache
def _validator(path: str, method: str, status: str, media_type: str) -> Draft202012Validator | None:
    responses = openapi()["paths"][path][method]["responses"]
    assert status in responses, f"{method} {path} answered {status}, which its schema does not know"
    content = responses[status].get("content", {})
    if not content:
        return None
    assert media_type in content, f"{method} {path} answered {status} as {media_type}"
    schema = _strict(content[media_type]["schema"])
    components = {"schemas": {name: _strict(shape) for name, shape in openapi()["components"]["schemas"].items()}}
    return Draft202012Validator({**schema, "components": components}, format_checker=FormatChecker())


def _strict(schema: Any) -> Any:
    """OpenAPI's `nullable` in JSON Schema's words, and no property that is not declared."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items() if key != "nullable"}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    if schema.get("nullable"):
        return {"anyOf": [found, {"type": "null"}]}
    return found


class Answer:
    def __init__(self, response: Any) -> None:
        self.response = response
        self.status = response.status_code
        self.headers = response.headers
        is_json = "json" in self.headers.get("Content-Type", "")
        self.json = json.loads(response.content) if response.content and is_json else None

    @property
    def code(self) -> str:
        return str(self.json["code"])

    def __repr__(self) -> str:
        return f"<{self.status} {self.response.content[:2000]!r}>"


class Api:
    """Somebody who asks. `checked` answers must be what the schema says."""

    def __init__(self, *, user: User | None = None, token: str | None = None, **options: Any) -> None:
        # An address of their own: what is limited by address in one test is not felt in another.
        self.source = f"10.9.{next(ADDRESSES) // 250}.{next(ADDRESSES) % 250}"
        self.client = Client(SERVER_NAME="localhost", REMOTE_ADDR=self.source, raise_request_exception=False, **options)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        if user is not None:
            self.client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Answer:
        return self.ask("get", path, query=query, headers=headers)

    def post(self, path: str, body: Any = None, *, query: dict[str, Any] | None = None, **headers: str) -> Answer:
        return self.ask("post", path, body, query=query, headers=headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.ask("patch", path, body, headers=headers)

    def delete(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Answer:
        return self.ask("delete", path, query=query, headers=headers)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        sent = raw if raw is not None else (b"" if body is None else json.dumps(body).encode())
        path = path if path.startswith("/") else V1 + path
        response = self.client.generic(
            method.upper(),
            path,
            sent,
            content_type=content_type,
            headers={**self.headers, **named},
            query_params=query,
        )
        answer = Answer(response)
        check(method, path, answer)
        return answer


def check(method: str, path: str, answer: Answer) -> None:
    media_type = answer.headers.get("Content-Type", "").partition(";")[0]
    if answer.status >= 400:
        assert media_type == "application/problem+json", answer
    template = template_of(path)
    if template is None or method not in openapi()["paths"].get(template, {}):
        return
    validator = _validator(template, method, str(answer.status), media_type)
    if validator is not None and answer.json is not None:
        problems = [f"{'/'.join(map(str, p.absolute_path))}: {p.message}" for p in validator.iter_errors(answer.json)]
        assert not problems, f"{method} {path}: {problems[:5]}"


def template_of(path: str) -> str | None:
    """The path as OpenAPI writes it."""
    from controlplane.api.handlers import nothing_here

    found = resolve(path.partition("?")[0])
    if found.func is nothing_here:
        return None
    return "/" + _braces(found.route)


def _braces(route: str) -> str:
    import re

    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)


def person(role: str | None, name: str = "") -> User:
    user = User.objects.create_user(name or f"{role or 'nobody'}-ann")
    if role:
        user.groups.add(Group.objects.get(name=role))
    return user


def token_of(*verbs: str, instance: str = "", name: str = "robot") -> str:
    maker = User.objects.filter(username="maker").first() or User.objects.create_user("maker")
    return tokens.make(name, verbs, instance, None, maker)[1]
