"""Drains: what each waits for, and whether what it drained may be deleted."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ
from controlplane.queries import drains

from ..answers.drains import DrainAnswer, DrainsAnswer, drain_document
from ..bodies import Paged
from ..fields import Flag, Text
from ..pagination import opened, page
from ..view import View


class DrainFilters(Paged):
    instance = Text(required=False, max_length=100)
    ended = Flag(required=False, help_text="Only those that have ended, or only those under way.")


class Drains(View):
    """Drains."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": DrainFilters}
    answers = {"GET": {200: DrainsAnswer}}

    def get(self, request: Request) -> Response:
        """Drains, the newest first"""
        instance, limit = self.query.get("instance"), self.query["limit"]
        self.permit(instance)
        found = drains.listing(
            instance=instance,
            ended=self.query.get("ended"),
            before=opened("drain", self.query.get("cursor"), int),
            limit=limit + 1,
        )
        cut = page(found, order="drain", key=lambda row: row.id, limit=limit)
        return self.say({"items": [drain_document(row, now=self.now) for row in cut.items], "next": cut.next})


class OneDrain(View):
    """One drain."""

    verbs = {"GET": READ}
    scope = "asked"
    answers = {"GET": {200: DrainAnswer}}

    def get(self, request: Request, drain: int) -> Response:
        """One drain: its story, its witnesses, what it waits for"""
        row = drains.drain(drain)
        self.permit(row.instance)
        return self.say(drain_document(row, now=self.now))
