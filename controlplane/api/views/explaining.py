"""Why: who can be sent work, and what keeps an instance from serving."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ
from controlplane.models import Instance
from controlplane.queries import explain, inquiry, routable
from controlplane.queries.fleet import snapshot

from ..answers.explaining import CountsAnswer, ExplanationAnswer, RoutableAnswer, RoutablesAnswer
from ..bodies import Paged
from ..fields import Choice, Flag, Text
from ..pagination import by_name
from ..view import View


class RoutableFilters(Paged):
    role = Choice(choices=Instance.Role.values, required=False)
    instance = Text(required=False, max_length=100)
    gateway = Text(required=False, max_length=120, help_text="As this gateway sees it: its own breakers alone count.")
    routable = Flag(required=False)


class Routable(View):
    """Who can be sent work."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": RoutableFilters}
    answers = {"GET": {200: RoutablesAnswer}}
    also = {"GET": (404,)}

    def get(self, request: Request) -> Response:
        """Who can be sent work, and what each of the four facts says: the conjunction of registration, health, intent
        and breaker"""
        name = self.query.get("instance")
        self.permit(name)
        rows = routable.instances(now=self.now, name=name, gateway=self.query.get("gateway"))
        prefill, decode = routable.count(rows, "prefill"), routable.count(rows, "decode")
        wanted = [
            row
            for row in rows
            if row.role == self.query.get("role", row.role) and row.routable == self.query.get("routable", row.routable)
        ]
        cut = by_name(wanted, name=lambda row: row.name, cursor=self.query.get("cursor"), limit=self.query["limit"])
        return self.say(
            {
                "prefill": CountsAnswer.of(asdict(prefill)),
                "decode": CountsAnswer.of(asdict(decode)),
                "pairs": prefill.instances * decode.instances,
                "items": RoutableAnswer.all_of(cut.items),
                "next": cut.next,
            }
        )


class Explanation(View):
    """Why."""

    verbs = {"GET": READ}
    answers = {"GET": {200: ExplanationAnswer}}

    def get(self, request: Request, name: str) -> Response:
        """Why an instance is, or is not, serving: in sentences, the verdict first; and the questions that operators ask,
        in order, each with its answer, its age and the next step"""
        with snapshot():
            sentences = explain.explain_instance(name, now=self.now)
            found = inquiry.inquire(name, now=self.now)
        said = {
            "name": name,
            "sentences": sentences,
            "conclusion": found.outcome,
            "answers": found.answers,
        }
        return self.say(ExplanationAnswer.of(said))
