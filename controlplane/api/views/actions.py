"""What operators do to an instance or a DP group: each action a POST, with a dry run, and an operation if it takes time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import OPERATE
from controlplane.commands import drains, instances, intent, requests
from controlplane.domain.errors import Refused
from controlplane.models.intent import ALL_GROUPS

from ..answers.changes import ChangedAnswer, changed_document, plan_document
from ..bodies import Query, Reason
from ..etags import instance_version, tag
from ..fields import Choice, Flag, Group, Number, SlotKey, Whole
from ..rehearsal import rehearse
from ..view import View

LONGEST_DRAIN_SECONDS = 30 * 86_400.0
OPERATIONS = "/api/v1/operations/"


class DryRun(Query):
    dry_run = Flag(
        required=False, default=False, help_text="Say what would be done, and what it would mean; do nothing."
    )


class OnGroup(Reason):
    dp = Group(default=None, help_text="One DP group; null: the whole instance.")


class DrainBody(OnGroup):
    deadline_seconds = Number(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=LONGEST_DRAIN_SECONDS,
        help_text="After so long it is called overdue; null: never.",
    )
    min_ready = Whole(
        required=False,
        default=0,
        max_value=1_000_000,
        help_text="Refuse when fewer routable instances of this role would remain.",
    )


class CancelBody(OnGroup):
    to = Choice(choices=("enabled", "cordoned"), required=False, default="enabled")


class OnSlot(Reason):
    slot = SlotKey(required=False, allow_null=True, default=None, help_text="One rank; null: every rank.")


class OfLaunch(Reason):
    launch = Whole(
        required=False,
        allow_null=True,
        default=None,
        max_value=2**63 - 1,
        help_text="This launch only: another that began since is not meant. Null: whichever are open.",
    )


class OnSlotOfLaunch(OnSlot, OfLaunch):
    pass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did. `operation` is what to follow when it takes time."""

    changed: bool
    sentence: str
    group: int = ALL_GROUPS
    intent: str | None = None
    version: int | None = None
    operation: str | None = None


class Action(View):
    """An action on one instance."""

    verbs = {"POST": OPERATE}
    queries = {"POST": DryRun}
    bodies = {"POST": OnGroup}
    matched = {"POST": False}
    answers = {"POST": {200: ChangedAnswer, 202: ChangedAnswer}}
    subject = "actions"

    def act(self, name: str) -> Outcome:
        raise NotImplementedError

    def plan(self, name: str) -> dict[str, Any] | None:
        """What a dry run says besides."""
        return None

    def post(self, request: Request, name: str) -> Response:
        if self.query["dry_run"]:
            return self.say(self._rehearsed(name))
        found = self.act(name)
        document = changed_document(name, found, dry_run=False, plan=None)
        etag = tag(found.version) if found.version is not None else None
        if found.operation is not None:
            return self.say(document, status=202, etag=etag, location=OPERATIONS + found.operation)
        return self.say(document, etag=etag)

    def _rehearsed(self, name: str) -> dict[str, Any]:
        plan = self.plan(name)
        try:
            found = rehearse(lambda: self.act(name))
        except Refused as refused:
            # Whoever asks for the plan gets it: that it would be refused is part of it.
            if plan is None or refused.code not in ("budget", "conflict"):
                raise
            found, plan = Outcome(False, refused.sentence, self.group), {**plan, "refused": refused.sentence}
        return changed_document(name, found, dry_run=True, plan=plan)

    @property
    def group(self) -> int:
        dp: int | None = self.body.get("dp")
        return ALL_GROUPS if dp is None else dp

    @property
    def by(self) -> dict[str, Any]:
        return {"actor": self.who.name, "reason": self.body["reason"]}

    @property
    def compared(self) -> dict[str, Any]:
        return {"group": self.group, "expected": self.expected, **self.by}


class Cordon(Action):
    """Cordon: no new requests, what is in flight goes on."""

    action = "cordon"

    def act(self, name: str) -> Outcome:
        return _of(intent.cordon(name, **self.compared))

    def plan(self, name: str) -> dict[str, Any] | None:
        return plan_document(drains.plan(name, group=self.group, now=self.now))


class Uncordon(Action):
    """Uncordon: enabled again; a drain under way is cancelled."""

    action = "uncordon"

    def act(self, name: str) -> Outcome:
        return _of(intent.uncordon(name, **self.compared))


class Drain(Action):
    """Drain: stop admission, then wait until witnesses say that nothing is left.

    The operation ends when it is drained, forced or cancelled. A dry run answers the plan.
    """

    bodies = {"POST": DrainBody}
    action = "drain"

    def act(self, name: str) -> Outcome:
        seconds: float | None = self.body["deadline_seconds"]
        deadline_at = None if seconds is None else self.now + seconds
        found = drains.drain(name, deadline_at=deadline_at, min_ready=self.body["min_ready"], **self.compared)
        return _of(found, operation=f"drain-{found.drain}" if found.drain is not None else None)

    def plan(self, name: str) -> dict[str, Any] | None:
        return plan_document(drains.plan(name, group=self.group, min_ready=self.body["min_ready"], now=self.now))


class CancelDrain(Action):
    """Cancel a drain: enabled again, or cordoned."""

    bodies = {"POST": CancelBody}
    action = "cancel-drain"

    def act(self, name: str) -> Outcome:
        return _of(drains.cancel(name, to=self.body["to"], **self.compared))


class ForceDrain(Action):
    """Force a drain to its end: it stays out of use, and is never called drained."""

    action = "force-drain"

    def act(self, name: str) -> Outcome:
        return _of(drains.force(name, **self.compared))


class Retire(Action):
    """Retire an instance: whoever asks for it is told 404."""

    bodies = {"POST": Reason}
    action = "retire"

    def act(self, name: str) -> Outcome:
        done = instances.retire(name, expected=self.expected, **self.by)
        return Outcome(done.changed, done.sentence, intent="retired", version=instance_version(name))

    def plan(self, name: str) -> dict[str, Any] | None:
        return plan_document(drains.plan(name, group=ALL_GROUPS, now=self.now))


class Asking(Action):
    """What the bootstrap process is asked to do; its answer ends the operation."""

    bodies = {"POST": OnSlot}
    matched: ClassVar[dict[str, bool]] = {}
    answers = {"POST": {200: ChangedAnswer, 202: ChangedAnswer}}

    def act(self, name: str) -> Outcome:
        number = requests.make(self.action, name, self.body.get("slot"), launch=self.body.get("launch"), **self.by)
        sentence = f"request {number} is with the bootstrap process"
        if self.query["dry_run"]:
            sentence = (
                f"the bootstrap process would be asked for it ({self.action}); it alone knows what it would answer"
            )
        return Outcome(True, sentence, operation=f"request-{number}")


class Evict(Asking):
    """Evict one rank, or every rank: it counts no more, until it registers again."""

    bodies = {"POST": OnSlotOfLaunch}
    action = "evict"


class Supersede(Asking):
    """Put the candidate launch in charge."""

    bodies = {"POST": OfLaunch}
    action = "supersede"


class Readmit(Asking):
    """Register the last known ranks again, if they answer."""

    action = "readmit"


class Reregister(Asking):
    """Have one rank, or every rank, register again."""

    action = "reregister"


ACTIONS: dict[str, type[Action]] = {
    "cordon": Cordon,
    "uncordon": Uncordon,
    "drain": Drain,
    "cancel-drain": CancelDrain,
    "force-drain": ForceDrain,
    "retire": Retire,
    "evict": Evict,
    "supersede": Supersede,
    "readmit": Readmit,
    "reregister": Reregister,
}
"""By their last part in the path."""


def _of(found: intent.Changed, *, operation: str | None = None) -> Outcome:
    return Outcome(found.changed, found.sentence, found.group, found.intent, found.version, operation)
