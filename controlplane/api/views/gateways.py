"""Gateways join, acknowledge, report and leave; workers report open rooms."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import ADMINISTER, GATEWAY, OPERATE, READ, REPORT
from controlplane.commands import gateways as commands
from controlplane.domain.errors import Refused
from controlplane.domain.names import NAME
from controlplane.ledger.position import Position
from controlplane.models.gateways import Breaker
from controlplane.queries import gateways

from ..answers.gateways import (
    AcknowledgedAnswer,
    GatewayAnswer,
    GatewaysAnswer,
    JoinedAnswer,
    LeftAnswer,
    ReportedAnswer,
)
from ..bodies import Paged, Strict, WhyDelete
from ..fields import Choice, Flag, Group, Number, Text, Whole
from ..pagination import by_name
from ..view import View

AT_ONCE = 2000
REPORT_BYTES = 2**20
OLDEST_SECONDS = 86_400.0
MAX_COUNT = 2**31 - 1


class GatewayFilters(Paged):
    left = Flag(required=False, default=False, help_text="Those that have left, too.")


class Join(Strict):
    name = serializers.RegexField(f"^{NAME.pattern}$", max_length=100, trim_whitespace=False)
    url = Text(required=False, default="", allow_blank=True, max_length=500)
    lease_seconds = Number(
        required=False, default=15.0, min_value=1, max_value=3600, help_text="Silent for longer than this: it is old."
    )


class Acknowledge(Strict):
    ledger = Text(max_length=36)
    revision = Whole(help_text="It serves from a snapshot that is at least this new.")


class BreakerReport(Strict):
    instance = Text(max_length=100)
    dp = Group()
    state = Choice(choices=Breaker.State.values)
    age_seconds = Number(required=False, default=0.0, min_value=0, max_value=OLDEST_SECONDS)
    reason = Text(required=False, default="", allow_blank=True, max_length=500)


class Breakers(Strict):
    breakers = serializers.ListField(child=BreakerReport(), max_length=AT_ONCE)


class OpenRoomsReport(Strict):
    instance = Text(max_length=100)
    dp = Group()
    open_rooms = Whole(max_value=MAX_COUNT)
    age_seconds = Number(
        min_value=0,
        max_value=OLDEST_SECONDS,
        help_text="How long ago it was counted: without it a count proves nothing.",
    )
    launch_token = Text(required=False, default="", allow_blank=True, max_length=128)


class OpenRooms(Strict):
    open_rooms = serializers.ListField(child=OpenRoomsReport(), max_length=AT_ONCE)


class WorkerRooms(OpenRooms):
    source = Text(max_length=128, help_text="Who counts: a name of the worker's process that stays the same.")


class OutcomeReport(Strict):
    prefill = Text(required=False, default="", allow_blank=True, max_length=100)
    decode = Text(required=False, default="", allow_blank=True, max_length=100)
    outcome = serializers.RegexField(r"^[a-z0-9][a-z0-9_.-]{0,39}$", trim_whitespace=False)
    count = Whole(max_value=MAX_COUNT)
    age_seconds = Number(required=False, default=0.0, min_value=0, max_value=OLDEST_SECONDS)


class Outcomes(Strict):
    outcomes = serializers.ListField(child=OutcomeReport(), max_length=AT_ONCE)


class Gateways(View):
    """Gateways."""

    verbs = {"GET": READ, "POST": GATEWAY}
    queries = {"GET": GatewayFilters}
    bodies = {"POST": Join}
    answers = {"GET": {200: GatewaysAnswer}, "POST": {200: JoinedAnswer}}
    action = "gateway.join"

    def get(self, request: Request) -> Response:
        """Gateways by name, with what they have acknowledged"""
        found = gateways.listing(left=self.query["left"])
        cut = by_name(found, name=lambda row: row.name, cursor=self.query.get("cursor"), limit=self.query["limit"])
        return self.say({"items": [document(row, now=self.now) for row in cut.items], "next": cut.next})

    def post(self, request: Request) -> Response:
        """A gateway starts: it joins, and has acknowledged nothing yet"""
        check_speaker(self, self.body["name"])
        joined = commands.join(**self.body, now=self.now, actor=self.who.name)
        at = Position(joined.ledger_id, joined.revision)
        return self.say(
            {
                "name": joined.name,
                "changed": joined.changed,
                "sentence": joined.sentence,
                "ledger": joined.ledger_id,
                "revision": joined.revision,
                "cursor": str(at),
            }
        )


class OneGateway(View):
    """One gateway."""

    verbs = {"GET": READ, "DELETE": (GATEWAY, OPERATE)}
    queries = {"DELETE": WhyDelete}
    answers = {"GET": {200: GatewayAnswer}, "DELETE": {200: LeftAnswer}}
    action = "gateway.leave"

    def get(self, request: Request, gateway: str) -> Response:
        """One gateway"""
        return self.say(document(gateways.gateway(gateway), now=self.now))

    def delete(self, request: Request, gateway: str) -> Response:
        """A gateway leaves, or an operator removes one that is gone for good"""
        by_itself = self.who.may(GATEWAY) and self.who.via == "token"
        if not self.who.may(OPERATE):
            check_speaker(self, gateway)
        why = "it said goodbye" if by_itself else "it was removed"
        changed = commands.leave(gateway, actor=self.who.name, reason=self.query["reason"], why=why, now=self.now)
        sentence = f"{gateway} left" if changed else f"{gateway} had left already"
        return self.say({"name": gateway, "changed": changed, "sentence": sentence})


class Report(View):
    """What a gateway says many times a minute."""

    verbs = {"POST": GATEWAY}
    reports = True
    body_limit = REPORT_BYTES


class Acknowledged(Report):
    """Acknowledge a revision."""

    bodies = {"POST": Acknowledge}
    answers = {"POST": {200: AcknowledgedAnswer}}
    action = "gateway.acknowledge"

    def post(self, request: Request, gateway: str) -> Response:
        """It serves from a snapshot at least this new; a drain waits for this word"""
        check_speaker(self, gateway)
        said = commands.acknowledge(gateway, self.body["ledger"], self.body["revision"], self.now)
        return self.say({"ledger": said.ledger_id, "revision": said.revision})


class ReportBreakers(Report):
    """Report breakers."""

    bodies = {"POST": Breakers}
    answers = {"POST": {200: ReportedAnswer}}
    action = "gateway.breakers"

    def post(self, request: Request, gateway: str) -> Response:
        """The gateway's verdicts about instances and DP groups"""
        check_speaker(self, gateway)
        return self.say(ReportedAnswer.of(commands.report_breakers(gateway, self.body["breakers"], self.now)))


class ReportOpenRooms(Report):
    """Report open rooms."""

    bodies = {"POST": OpenRooms}
    answers = {"POST": {200: ReportedAnswer}}
    action = "gateway.open-rooms"

    def post(self, request: Request, gateway: str) -> Response:
        """How many rooms the gateway knows to be open, by DP group"""
        check_speaker(self, gateway)
        kept = commands.report_open_rooms("gateway", gateway, self.body["open_rooms"], self.now)
        return self.say(ReportedAnswer.of(kept))


class ReportOutcomes(Report):
    """Report outcomes."""

    bodies = {"POST": Outcomes}
    answers = {"POST": {200: ReportedAnswer}}
    action = "gateway.outcomes"

    def post(self, request: Request, gateway: str) -> Response:
        """How many requests ended how, by minute and pair; counts are added up"""
        check_speaker(self, gateway)
        return self.say(ReportedAnswer.of(commands.report_outcomes(gateway, self.body["outcomes"], self.now)))


class WorkersOpenRooms(View):
    """Workers report open rooms."""

    verbs = {"POST": REPORT}
    scope = "asked"
    reports = True
    body_limit = REPORT_BYTES
    bodies = {"POST": WorkerRooms}
    answers = {"POST": {200: ReportedAnswer}}
    action = "worker.open-rooms"

    def post(self, request: Request) -> Response:
        """How many rooms a worker knows to be open in its own instance, by DP group"""
        items = self.body["open_rooms"]
        for instance in {item["instance"] for item in items} or {self.who.instance or None}:
            self.permit(instance)
        return self.say(ReportedAnswer.of(commands.report_open_rooms("worker", self.body["source"], items, self.now)))


def check_speaker(view: View, name: str) -> None:
    """A word of a gateway ends drains: another gateway's token, or a copy of a script, does not speak for it."""
    speaker = gateways.speaker(name, now=view.now)
    if speaker and speaker != view.who.name and not view.who.may(ADMINISTER):
        raise Refused(
            f"{name} was joined by {speaker}, which alone speaks for it while it is heard from", code="forbidden"
        )


def document(row: gateways.GatewayRow, *, now: float) -> dict[str, object]:
    seen = {
        **{name: getattr(row, name) for name in row.__dataclass_fields__},
        "state": row.state(now),
        "sentence": row.sentence(now),
        "acknowledged": (f"{row.acknowledged_ledger}:{row.acknowledged_revision}" if row.acknowledged_ledger else None),
    }
    return GatewayAnswer.of(seen)
