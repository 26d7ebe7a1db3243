"""What is inside one instance: launches, ranks, worker processes, published engine info."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ
from controlplane.queries import engine_info, fleet, workers

from ..answers.instances import (
    EngineInfoAnswer,
    EngineInfosAnswer,
    LaunchAnswer,
    LaunchesAnswer,
    RankAnswer,
    RanksAnswer,
    WorkerAnswer,
    WorkersAnswer,
    rank_key,
)
from ..bodies import Paged
from ..fields import Choice, Flag, Whole
from ..pagination import by_name, opened, page
from ..view import View

TOLD = 10_000
"""Launches of one instance that can be looked at."""


class RankFilters(Paged):
    launch = Whole(required=False, help_text="Only of this launch.")
    dp = Whole(required=False, help_text="Only of this DP group.")
    contact = Choice(choices=("up", "refused", "silent", "unreached", "stranger", "unprobed"), required=False)


class WorkerFilters(Paged):
    late = Flag(required=False, default=False, help_text="Only those that are late.")


class SessionFilters(Paged):
    state = Choice(choices=("live", "conflict", "retired"), required=False)


class Launches(View):
    """Launches of an instance."""

    verbs = {"GET": READ}
    queries = {"GET": Paged}
    answers = {"GET": {200: LaunchesAnswer}}

    def get(self, request: Request, name: str) -> Response:
        """The launches of an instance, the newest first, ended ones too"""
        row, _ = fleet.instance(name, now=self.now)
        limit, before = self.query["limit"], opened("launch", self.query.get("cursor"), int)
        found = [one for one in fleet.launches(row.id, limit=TOLD) if before is None or one.number < before]
        cut = page(found[: limit + 1], order="launch", key=lambda launch: launch.number, limit=limit)
        return self.say({"items": LaunchAnswer.all_of(cut.items), "next": cut.next})


class Ranks(View):
    """Ranks of an instance."""

    verbs = {"GET": READ}
    queries = {"GET": RankFilters}
    answers = {"GET": {200: RanksAnswer}}

    def get(self, request: Request, name: str) -> Response:
        """Whoever counts in the open launches of an instance, in slot order"""
        row, found = fleet.instance(name, now=self.now)
        ranks = [
            rank
            for rank in fleet.ranks(row.id, term=found.leader.token)
            if rank.launch == self.query.get("launch", rank.launch)
            and rank.slot.dp == self.query.get("dp", rank.slot.dp)
            and rank.contact == self.query.get("contact", rank.contact)
        ]
        cut = by_name(ranks, name=rank_key, cursor=self.query.get("cursor"), limit=self.query["limit"])
        return self.say({"items": RankAnswer.all_of(cut.items), "next": cut.next})


class Workers(View):
    """Worker processes of an instance."""

    verbs = {"GET": READ}
    queries = {"GET": WorkerFilters}
    answers = {"GET": {200: WorkersAnswer}}

    def get(self, request: Request, name: str) -> Response:
        """Whoever sends heartbeats for this instance, by name, and who is late with them"""
        fleet.instance(name, now=self.now)
        found = sorted(workers.of_instance(name), key=lambda row: row.worker)
        found = [row for row in found if row.late or not self.query["late"]]
        cut = by_name(found, name=lambda row: row.worker, cursor=self.query.get("cursor"), limit=self.query["limit"])
        items = [WorkerAnswer.of(row.document(self.now)) for row in cut.items]
        return self.say({"items": items, "next": cut.next})


class EngineInfo(View):
    """Engine info of an instance."""

    verbs = {"GET": READ}
    queries = {"GET": SessionFilters}
    answers = {"GET": {200: EngineInfosAnswer}}

    def get(self, request: Request, name: str) -> Response:
        """Published sessions of transfer-engine info, the newest first, without their weights"""
        row, _ = fleet.instance(name, now=self.now)
        limit, before = self.query["limit"], opened("session", self.query.get("cursor"), int)
        found = engine_info.sessions(row.id, state=self.query.get("state"), before=before, limit=limit + 1)
        cut = page(found, order="session", key=lambda session: session.id, limit=limit)
        return self.say({"items": EngineInfoAnswer.all_of(cut.items), "next": cut.next})
