"""The way of single rooms: workers report it rung by rung, and people ask where it stopped."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ, REPORT
from controlplane.commands import evidence as commands
from controlplane.domain.claims import RUNGS
from controlplane.domain.reports import MAX_AGE_SECONDS, MAX_BATCH, MAX_DETAIL, MAX_ITEMS, OUTCOME, RUN
from controlplane.queries import evidence
from controlplane.queries.fleet import snapshot

from ..answers.evidence import KeptEvidenceAnswer, RoomExplanationAnswer
from ..bodies import Strict
from ..fields import Choice, Number, Room, Text, Whole
from ..view import View

REPORT_BYTES = 2**20


class EvidenceItem(Strict):
    room = Room()
    instance = Text(
        max_length=100,
        help_text="The prefill of the room, whoever tells of it; or the address of one of its ranks (`10.0.0.1:4001`).",
    )
    rung = Choice(choices=RUNGS)
    result = serializers.RegexField(
        f"^{OUTCOME.pattern}$", trim_whitespace=False, help_text="`passed`; every other word is a failure."
    )
    age_seconds = Number(min_value=0, max_value=MAX_AGE_SECONDS, help_text="How long ago it was.")
    took_seconds = Number(
        required=False,
        allow_null=True,
        default=None,
        min_value=0,
        max_value=MAX_AGE_SECONDS,
        help_text="How long it took since the rung before, at this worker.",
    )
    detail = Text(required=False, default="", allow_blank=True, max_length=MAX_DETAIL)
    launch_token = Text(
        required=False, default="", allow_blank=True, max_length=128, help_text="The worker's own launch."
    )


class Batch(Strict):
    run = serializers.RegexField(
        f"^{RUN.pattern}$", trim_whitespace=False, help_text="Made up anew by each run of the worker's process."
    )
    number = Whole(min_value=1, max_value=MAX_BATCH, help_text="Of this run's batches; it only grows.")


class Evidence(Strict):
    source = Text(max_length=128, help_text="Who tells: a name of the worker's process that stays the same.")
    batch = Batch(
        required=False,
        allow_null=True,
        default=None,
        help_text="Whoever sends a batch again, because its answer was lost, numbers it: then it is counted once.",
    )
    evidence = serializers.ListField(child=EvidenceItem(), max_length=MAX_ITEMS)


class WorkersEvidence(View):
    """Workers report the way of rooms."""

    verbs = {"POST": REPORT}
    scope = "asked"
    reports = True
    body_limit = REPORT_BYTES
    bodies = {"POST": Evidence}
    answers = {"POST": {200: KeptEvidenceAnswer}}
    action = "worker.evidence"

    def post(self, request: Request) -> Response:
        """How far rooms came, rung by rung: all failures are kept, and a share of the rest"""
        items = self.body["evidence"]
        for instance in {item["instance"] for item in items} or {self.who.instance or None}:
            self.permit(instance)
        told = {"speaker": self.who.name, "batch": self.body["batch"]}
        kept = commands.report_evidence(self.body["source"], items, self.now, **told)
        return self.say(KeptEvidenceAnswer.of(kept))


class RoomExplanation(View):
    """Where a room stopped."""

    verbs = {"GET": READ}
    answers = {"GET": {200: RoomExplanationAnswer}}

    def get(self, request: Request, room: int) -> Response:
        """How far the way of a room is proven, where it stopped and why, and what to do; with its timeline"""
        with snapshot():
            found = evidence.evidence(room, now=self.now)
        return self.say(RoomExplanationAnswer.of(found))
