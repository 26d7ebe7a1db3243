"""Rooms: where one is bound, which are bound in an instance, which collided."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ
from controlplane.queries import rooms

from ..answers.rooms import (
    BoundRoomAnswer,
    CollisionAnswer,
    CollisionsAnswer,
    FoundRoomAnswer,
    ReuseAnswer,
    ReusesAnswer,
    RoomAnswer,
    RoomsAnswer,
)
from ..bodies import Paged
from ..fields import Room, Text
from ..pagination import opened, sealed
from ..view import View


class RoomFilters(Paged):
    instance = Text(max_length=100, help_text="Rooms are listed by instance.")


class CollisionFilters(Paged):
    instance = Text(required=False, max_length=100)
    room = Room(required=False)


class OneRoom(View):
    """One room."""

    verbs = {"GET": READ}
    answers = {"GET": {200: FoundRoomAnswer}}

    def get(self, request: Request, room: int) -> Response:
        """Where a room is bound: instance, DP rank, until when, and who else claimed it"""
        found = rooms.find_room(room, now=self.now)
        return self.say({"room": str(room), "items": RoomAnswer.all_of(found)})


class Rooms(View):
    """Rooms."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": RoomFilters}
    answers = {"GET": {200: RoomsAnswer}}
    also = {"GET": (404,)}

    def get(self, request: Request) -> Response:
        """The living rooms of an instance"""
        self.permit(self.query["instance"])
        return self.say(_living(self.query["instance"], self))


class RoomsInside(View):
    """Rooms of an instance."""

    verbs = {"GET": READ}
    queries = {"GET": Paged}
    answers = {"GET": {200: RoomsAnswer}}

    def get(self, request: Request, name: str) -> Response:
        """The living rooms of an instance"""
        return self.say(_living(name, self))


class Collisions(View):
    """Collisions of rooms."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": CollisionFilters}
    answers = {"GET": {200: CollisionsAnswer}}
    also = {"GET": (404,)}

    def get(self, request: Request) -> Response:
        """Rooms that were bound to another DP rank while their first binding was alive, the newest first"""
        instance = self.query.get("instance")
        self.permit(instance)
        found = rooms.collisions(
            instance=instance or "",
            room=self.query.get("room"),
            after=_after(self),
            limit=self.query["limit"],
        )
        return self.say({"items": CollisionAnswer.all_of(found.rows), "next": _next(found.next)})


class Reuses(View):
    """Rooms that came back."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": CollisionFilters}
    answers = {"GET": {200: ReusesAnswer}}
    also = {"GET": (404,)}

    def get(self, request: Request) -> Response:
        """Rooms that were bound once more shortly after their binding was over: late, or a number used twice"""
        instance = self.query.get("instance")
        self.permit(instance)
        found = rooms.reuses(
            instance=instance or "", room=self.query.get("room"), after=_after(self), limit=self.query["limit"]
        )
        return self.say({"items": ReuseAnswer.all_of(found.rows), "next": _next(found.next)})


def _living(instance: str, view: View) -> dict[str, object]:
    found = rooms.live_rooms(instance, now=view.now, after=_after(view), limit=view.query["limit"])
    return {"items": BoundRoomAnswer.all_of(found.rows), "next": _next(found.next)}


def _after(view: View) -> str:
    key = opened("room", view.query.get("cursor"), str)
    return key or ""


def _next(key: str) -> str | None:
    return sealed("room", key) if key else None
