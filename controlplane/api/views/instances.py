"""Instances: list, add, look, edit, retire."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import OPERATE, READ
from controlplane.commands import instances
from controlplane.models import Instance
from controlplane.queries import fleet
from controlplane.queries.rows import FleetRow, InstanceRow

from ..answers.changes import DoneAnswer, done
from ..answers.instances import BootstrapAnswer, InstanceAnswer, InstancesAnswer
from ..bodies import Paged, Reason, WhyDelete
from ..etags import instance_version, tag
from ..fields import Choice, Flag, Number, Text, Whole
from ..pagination import by_name
from ..view import View

STATES = ("serving", "incomplete", "unproven", "flushing", "empty", "cordoned", "draining", "retired")
VERSION = "Its version, for If-Match: it counts what operators changed, of its DP groups too."
PORT = {"min_value": 1, "max_value": 65535}


class InstanceFilters(Paged):
    role = Choice(choices=Instance.Role.values, required=False)
    intent = Choice(choices=Instance.Intent.values, required=False)
    state = Choice(choices=STATES, required=False)
    serving = Flag(required=False)
    name = Text(required=False, max_length=100, help_text="Names that contain this.")


OBSERVED = "Its own KV bootstrap server (of a decode: its HTTP server), polled for what would be registered here."
EVERY = "Seconds between probes of its engine; null: as the settings say."
FAILS = "Misses in a row that make its engine unhealthy; null: as the settings say."
PASSES = "Answers in a row that make it healthy again; null: as the settings say."
MAYBE: dict[str, Any] = {"required": False, "allow_null": True}
INFO = "Its own engine-info server, polled for published weights."


class NewInstance(Reason):
    name = Text(max_length=100)
    role = Choice(choices=Instance.Role.values, default="prefill", required=False)
    own_port = Whole(**PORT, required=False, allow_null=True, default=None)
    host_alias = Text(max_length=253, required=False, allow_null=True, default=None)
    engine_url = Text(
        max_length=500, required=False, allow_blank=True, default="", help_text="The engine's own HTTP server."
    )
    engine_key = Text(
        max_length=500, required=False, allow_blank=True, default="", help_text="Its API key; never shown again."
    )
    observed_url = Text(max_length=500, required=False, allow_blank=True, default="", help_text=OBSERVED)
    observed_engine_info_url = Text(max_length=500, required=False, allow_blank=True, default="", help_text=INFO)
    probe_seconds = Number(**MAYBE, default=None, min_value=0.2, max_value=3600, help_text=EVERY)
    fail_after = Whole(**MAYBE, default=None, min_value=1, max_value=100, help_text=FAILS)
    pass_after = Whole(**MAYBE, default=None, min_value=1, max_value=100, help_text=PASSES)


class InstanceChanges(Reason):
    """What is left away stays as it is; null takes it away."""

    own_port = Whole(**PORT, required=False, allow_null=True)
    host_alias = Text(max_length=253, required=False, allow_null=True)
    engine_url = Text(max_length=500, required=False, allow_blank=True)
    engine_key = Text(max_length=500, required=False, allow_blank=True)
    observed_url = Text(max_length=500, required=False, allow_blank=True, help_text=OBSERVED)
    observed_engine_info_url = Text(max_length=500, required=False, allow_blank=True, help_text=INFO)
    probe_seconds = Number(**MAYBE, min_value=0.2, max_value=3600, help_text=EVERY)
    fail_after = Whole(**MAYBE, min_value=1, max_value=100, help_text=FAILS)
    pass_after = Whole(**MAYBE, min_value=1, max_value=100, help_text=PASSES)


class Instances(View):
    """Instances."""

    verbs = {"GET": READ, "POST": OPERATE}
    queries = {"GET": InstanceFilters}
    bodies = {"POST": NewInstance}
    answers = {"GET": {200: InstancesAnswer}, "POST": {201: DoneAnswer}}
    tagged = {"POST": VERSION}
    action = "instance.add"

    def get(self, request: Request) -> Response:
        """All instances, by name, rolled up"""
        found = fleet.fleet(now=self.now)
        page = by_name(
            (row for row in found.instances if self._wanted(row)),
            name=lambda row: row.name,
            cursor=self.query.get("cursor"),
            limit=self.query["limit"],
        )
        return self.say(
            {
                "ledger": found.ledger_id,
                "revision": found.revision,
                "bootstrap": bootstrap_document(found, now=self.now),
                "items": InstanceAnswer.all_of(page.items),
                "next": page.next,
            }
        )

    def post(self, request: Request) -> Response:
        """Add an instance, or a retired one again"""
        name = self.body.pop("name")
        made = instances.add(name, **self.body, actor=self.who.name)
        self.body["name"] = name
        return self.say(done(made), status=201, etag=tag(instance_version(name)), location=f"/api/v1/instances/{name}")

    def _wanted(self, row: InstanceRow) -> bool:
        exact = (key for key in ("role", "intent", "state", "serving") if key in self.query)
        return all(getattr(row, key) == self.query[key] for key in exact) and self.query.get("name", "") in row.name


class OneInstance(View):
    """One instance."""

    verbs = {"GET": READ, "PATCH": OPERATE, "DELETE": OPERATE}
    queries = {"DELETE": WhyDelete}
    bodies = {"PATCH": InstanceChanges}
    matched = {"PATCH": True, "DELETE": True}
    tagged = {"GET": VERSION, "PATCH": VERSION, "DELETE": VERSION}
    answers = {"GET": {200: InstanceAnswer}, "PATCH": {200: DoneAnswer}, "DELETE": {200: DoneAnswer}}

    def get(self, request: Request, name: str) -> Response:
        """One instance, rolled up"""
        row, _ = fleet.instance(name, now=self.now)
        return self.say(InstanceAnswer.of(row), etag=tag(row.version))

    def patch(self, request: Request, name: str) -> Response:
        """Change the ways in which an instance is reached"""
        changed = instances.edit(name, **self.body, actor=self.who.name, expected=self.expected)
        return self.say(done(changed), etag=self._tag(name))

    def delete(self, request: Request, name: str) -> Response:
        """Retire an instance"""
        reason = self.query["reason"]
        retired = instances.retire(name, actor=self.who.name, reason=reason, expected=self.expected)
        return self.say(done(retired), etag=self._tag(name))

    def _tag(self, name: str) -> str:
        return tag(instance_version(name))

    def action_of(self, request: Any) -> str:
        known = {"PATCH": "instance.edit", "DELETE": "instance.retire"}
        return known.get(request.method) or super().action_of(request)


def bootstrap_document(found: FleetRow, *, now: float) -> dict[str, Any]:
    leader = found.leader
    return BootstrapAnswer.of(
        {
            "leads": leader.leads(now),
            "holder": leader.holder,
            "term": leader.token,
            "renewed_at": leader.stamp or None,
        }
    )
