"""The past: what is kept of it, what is stale, and purging."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import ADMINISTER, OPERATE, READ
from controlplane.commands import purging
from controlplane.queries import retention, stale

from ..answers.retention import (
    ArchiveAnswer,
    ArchivedLaunchAnswer,
    EndedAnswer,
    PurgedArchiveAnswer,
    PurgePlanAnswer,
    RetentionAnswer,
    StaleAnswer,
    StaleListAnswer,
)
from ..bodies import Paged, Reason
from ..fields import Flag, Number, Text
from ..pagination import by_name, opened, page
from ..permissions import why_not
from ..view import View
from .actions import OPERATIONS, DryRun

LONGEST_AGE_SECONDS = 100 * 365 * 86_400.0
AGE = {"required": False, "min_value": 0, "max_value": LONGEST_AGE_SECONDS}


class StaleFilters(Paged):
    older_than_seconds = Number(**AGE, default=0.0, help_text="Only what has been so for so long.")


class ArchiveFilters(Paged):
    instance = Text(required=False, max_length=100)


class ArchivePurge(Reason):
    instance = Text(
        required=False, allow_null=True, default=None, max_length=100, help_text="Only launches of this one."
    )
    older_than_seconds = Number(
        min_value=0, max_value=LONGEST_AGE_SECONDS, help_text="That ended longer ago than this."
    )


class PurgeBody(Reason):
    override = Flag(
        required=False, default=False, help_text="Although it is not retired, or its ranks answer. Administrators only."
    )


class Retention(View):
    """What is kept."""

    verbs = {"GET": READ}
    answers = {"GET": {200: RetentionAnswer}}

    def get(self, request: Request) -> Response:
        """From when on the past can be told, what is kept for how long, and how much has gone"""
        return self.say(RetentionAnswer.of(retention.retention()))


class Stale(View):
    """What is stale."""

    verbs = {"GET": READ}
    queries = {"GET": StaleFilters}
    answers = {"GET": {200: StaleListAnswer}}

    def get(self, request: Request) -> Response:
        """Instances that are retired, silent or empty, since when and why, and how many launches ended"""
        found = stale.stale(now=self.now, older_than=self.query["older_than_seconds"])
        cut = by_name(found, name=lambda row: row.instance, cursor=self.query.get("cursor"), limit=self.query["limit"])
        launches = EndedAnswer.of(stale.ended())
        return self.say({"items": StaleAnswer.all_of(cut.items), "next": cut.next, "launches": launches})


class Archive(View):
    """The archive."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": ArchiveFilters}
    answers = {"GET": {200: ArchiveAnswer}}

    def get(self, request: Request) -> Response:
        """Launches that ended, with their ranks and what took their place, those that were archived last first"""
        instance, limit = self.query.get("instance"), self.query["limit"]
        self.permit(instance)
        before = opened("archived", self.query.get("cursor"), int)
        cut = page(
            stale.archive(instance=instance, before=before, limit=limit + 1),
            order="archived",
            key=lambda row: row.id,
            limit=limit,
        )
        return self.say({"items": ArchivedLaunchAnswer.all_of(cut.items), "next": cut.next})


class PurgeArchive(View):
    """Purge the archive."""

    verbs = {"POST": ADMINISTER}
    queries = {"POST": DryRun}
    bodies = {"POST": ArchivePurge}
    answers = {"POST": {200: PurgedArchiveAnswer}}
    action = "archive.purge"

    def post(self, request: Request) -> Response:
        """Take launches out of the archive that ended long ago"""
        dry_run = self.query["dry_run"]
        gone = purging.purge_archive(
            instance=self.body["instance"],
            older_than=self.body["older_than_seconds"],
            actor=self.who.name,
            reason=self.body["reason"],
            now=self.now,
            dry_run=dry_run,
        )
        return self.say(PurgedArchiveAnswer.of({"count": gone.count, "sentence": gone.sentence, "dry_run": dry_run}))


class Purge(View):
    """Purge an instance."""

    verbs = {"POST": OPERATE}
    queries = {"POST": DryRun}
    bodies = {"POST": PurgeBody}
    matched = {"POST": False}
    answers = {"POST": {200: PurgePlanAnswer, 202: PurgePlanAnswer}}
    action = "instance.purge"

    def post(self, request: Request, name: str) -> Response:
        """End a retired instance for good: nothing is called so any more; its launches stay in the archive

        A dry run says what would go. Whoever is not retired, or still answers, is refused without an override.
        """
        override = self.body["override"]
        if override and not self.who.may(ADMINISTER):
            raise PermissionDenied(why_not(self.who, (ADMINISTER,), name))
        plan = purging.plan(name, now=self.now)
        said: dict[str, Any] = {"instance": name, "alive": plan.alive, "sentences": plan.sentences}
        if self.query["dry_run"]:
            return self.say(PurgePlanAnswer.of({**said, "operation": None, "dry_run": True}))
        number = purging.purge(
            name, override=override, actor=self.who.name, reason=self.body["reason"], expected=self.expected
        )
        operation = f"request-{number}"
        answer = PurgePlanAnswer.of({**said, "operation": operation, "dry_run": False})
        return self.say(answer, status=202, location=OPERATIONS + operation)
