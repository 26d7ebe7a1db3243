"""Routers: real sglang-routers that are kept in step with a set of instances."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import OPERATE, READ
from controlplane.acts.keys import check_keys
from controlplane.commands import routers as commands
from controlplane.queries import routers

from ..answers.changes import DoneAnswer, done
from ..answers.gateways import RouterAnswer, RoutersAnswer
from ..bodies import Paged, Reason, WhyDelete
from ..etags import tag
from ..fields import Text
from ..pagination import by_name
from ..view import View

MEMBERS = 1000
VERSION = "Its version, for If-Match."


class RouterChanges(Reason):
    """What is left away stays as it is."""

    url = Text(required=False, max_length=500, help_text="Where it listens, such as http://10.0.0.9:30000.")
    instances = serializers.ListField(child=Text(max_length=100), required=False, max_length=MEMBERS)
    metrics_url = Text(required=False, allow_blank=True, max_length=500)
    api_key = Text(required=False, allow_blank=True, max_length=500, help_text="Never shown again.")


class NewRouter(Reason):
    name = Text(max_length=100)
    url = Text(max_length=500, help_text="Where it listens, such as http://10.0.0.9:30000.")
    instances = serializers.ListField(child=Text(max_length=100), max_length=MEMBERS)
    metrics_url = Text(required=False, default="", allow_blank=True, max_length=500)
    api_key = Text(required=False, default="", allow_blank=True, max_length=500, help_text="Never shown again.")


class Routers(View):
    """Routers."""

    verbs = {"GET": READ, "POST": OPERATE}
    queries = {"GET": Paged}
    bodies = {"POST": NewRouter}
    answers = {"GET": {200: RoutersAnswer}, "POST": {201: DoneAnswer}}
    tagged = {"POST": VERSION}
    action = "router.add"

    def get(self, request: Request) -> Response:
        """Routers by name, and what each was last seen to hold"""
        found = routers.listing()
        cut = by_name(found, name=lambda row: row.name, cursor=self.query.get("cursor"), limit=self.query["limit"])
        return self.say({"items": RouterAnswer.all_of(cut.items), "next": cut.next})

    def post(self, request: Request) -> Response:
        """Name a router, and the instances it shall know"""
        check_keys(self.who, self.body["instances"])
        made = commands.add(**self.body, actor=self.who.name)
        name = self.body["name"]
        return self.say(done(made), status=201, etag=tag(made.version), location=f"/api/v1/routers/{name}")


class OneRouter(View):
    """One router."""

    verbs = {"GET": READ, "PATCH": OPERATE, "DELETE": OPERATE}
    queries = {"DELETE": WhyDelete}
    bodies = {"PATCH": RouterChanges}
    matched = {"PATCH": True, "DELETE": True}
    tagged = {"GET": VERSION, "PATCH": VERSION}
    answers = {"GET": {200: RouterAnswer}, "PATCH": {200: DoneAnswer}, "DELETE": {200: DoneAnswer}}

    def get(self, request: Request, router: str) -> Response:
        """One router"""
        row = routers.router(router)
        return self.say(RouterAnswer.of(row), etag=tag(row.version))

    def patch(self, request: Request, router: str) -> Response:
        """Change where a router is, or which instances it shall know"""
        members = [member.instance for member in routers.router(router).members]
        if "url" in self.body or "instances" in self.body:
            check_keys(self.who, self.body.get("instances", members))
        changed = commands.edit(router, **self.body, expected=self.expected, actor=self.who.name)
        return self.say(done(changed), etag=tag(routers.router(router).version))

    def delete(self, request: Request, router: str) -> Response:
        """Let go of a router; what it holds stays as it is"""
        removed = commands.remove(router, expected=self.expected, actor=self.who.name, reason=self.query["reason"])
        return self.say(done(removed))

    def action_of(self, request: Any) -> str:
        known = {"PATCH": "router.edit", "DELETE": "router.remove"}
        return known.get(request.method) or super().action_of(request)
