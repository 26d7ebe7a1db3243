"""Somebody doubts that an instance is well: gateways, agents and operators have it asked at once."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import GATEWAY, OPERATE, REPORT
from controlplane.commands import suspecting
from controlplane.queries import fleet

from ..answers.engines import SuspectedAnswer
from ..bodies import Reason
from ..view import View


class Suspect(View):
    """A doubt."""

    verbs = {"POST": (OPERATE, GATEWAY, REPORT)}
    bodies = {"POST": Reason}
    answers = {"POST": {202: SuspectedAnswer}}
    subject = "actions"
    reports = True
    action = "instance.suspect"

    def post(self, request: Request, name: str) -> Response:
        """Doubt that an instance is well: its ranks and its engine are asked at once, whosever turn it is

        Nothing else changes. Said again within a second it is one doubt. What is known comes with the answer; what is found
        stands in the instance a moment later, its `engine.asked_at` later than `at`.
        """
        found = suspecting.suspect(name, actor=self.who.name, reason=self.body["reason"])
        row, _ = fleet.instance(name, now=self.now)
        said = {
            "name": name,
            "changed": found.changed,
            "sentence": found.sentence,
            "at": found.at,
            "engine": row.engine,
        }
        return self.say(SuspectedAnswer.of(said), status=202, location=f"/api/v1/instances/{name}")
