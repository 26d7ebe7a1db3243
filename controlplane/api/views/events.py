"""The ledger: events, forwards and backwards, as of then; and the snapshot that they change."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ
from controlplane.ledger import position
from controlplane.ledger.position import Position
from controlplane.ledger.tail import Cursor
from controlplane.queries import history, state, turned

from ..answers.events import EventAnswer, EventsAnswer, FleetAnswer
from ..bodies import Query
from ..etags import unchanged
from ..fields import AsOf, Number, Text, Whole
from ..renderers import PlainJson
from ..view import View
from ..waiting import MOST_SECONDS

AT_A_TIME = 500


class EventFilters(Query):
    after = Text(required=False, max_length=80, help_text="A position, `LEDGER:N`: what came after it, oldest first.")
    before = Text(required=False, max_length=80, help_text="A position: what came before it, newest first.")
    as_of = AsOf(required=False, help_text="Nothing later than this moment or position.")
    wait = Number(
        required=False,
        min_value=0,
        max_value=MOST_SECONDS,
        help_text="With `after`: when there is nothing yet, wait so many seconds for it.",
    )
    instance = Text(required=False, max_length=100)
    kind = Text(required=False, max_length=400, help_text="Kinds, or their beginnings: `rank,drain.ended`.")
    actor = Text(required=False, max_length=150)
    limit = Whole(required=False, default=100, min_value=1, max_value=AT_A_TIME)

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if "wait" in given and "after" not in given:
            raise serializers.ValidationError({"wait": ["waiting needs `after`: whatever comes after what?"]})
        if "after" in given and "before" in given:
            raise serializers.ValidationError({"before": ["give `after` or `before`; `as_of` ends what comes after"]})
        return given


class Events(View):
    """Events of the ledger."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": EventFilters}
    answers = {"GET": {200: EventsAnswer}}
    also = {"GET": (410,)}

    def get(self, request: Request) -> Response:
        """What happened, with who did it and why

        With `after`: oldest first, without a gap; with `wait` it is a long poll. Without: the newest first.
        """
        self.permit(self.query.get("instance"))
        wanted = history.Wanted(
            instance=self.query.get("instance", ""),
            kinds=history.kinds_like([k for k in self.query.get("kind", "").split(",") if k]),
            actor=self.query.get("actor", ""),
            until=revision_of(self.query.get("as_of")),
            before=position.read(self.query["before"]).revision if "before" in self.query else None,
        )
        limit = self.query["limit"]
        if "after" in self.query:
            page = history.after(position.read(self.query["after"]), wanted, limit=limit)
        else:
            page = history.newest(wanted, limit=limit)
        return self.say(
            {
                "ledger": page.ledger_id,
                "revision": page.revision,
                "items": EventAnswer.all_of(page.items),
                "next": str(page.next) if page.next is not None else None,
                "more": page.more,
            }
        )


class FleetQuery(Query):
    as_of = AsOf(required=False, help_text="The fleet as it was at this moment or position.")
    instance = Text(
        required=False, max_length=100, help_text="Only this instance; gateways and routers are there all the same."
    )


class Fleet(View):
    """The fleet."""

    renderer_classes = [PlainJson]
    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": FleetQuery}
    answers = {"GET": {200: FleetAnswer, 304: None}}
    tagged = {"GET": "The position in the ledger."}
    also = {"GET": (409, 410, 413)}

    def get(self, request: Request) -> Response:
        """All facts at one revision: the snapshot that events go on from

        Its ETag is the position: If-None-Match answers 304 while nothing has happened.
        """
        instance = self.query.get("instance")
        self.permit(instance)
        as_of = revision_of(self.query.get("as_of"))
        if as_of is None:
            head = history.head_position()
            if unchanged(request._request, _tag(head)):
                return self.say(None, status=304, etag=_tag(head))
            cursor, found = state.fleet_state(instance)
        else:
            cursor, found = Cursor(history.head_position().ledger_id, as_of), turned.fleet_then(as_of, instance)
        at = history.position_of(cursor)
        document = {"ledger": at.ledger_id, "revision": at.revision, "cursor": str(at), "state": found}
        return self.say(document, etag=_tag(at))


def revision_of(as_of: Position | float | None) -> int | None:
    """Refuses (cursor_gone) positions that this ledger does not contain, and moments of which nothing is kept."""
    if isinstance(as_of, Position):
        history.check(as_of)
        return as_of.revision
    return None if as_of is None else state.revision_then(as_of)


def _tag(at: Position) -> str:
    return f'"{at}"'
