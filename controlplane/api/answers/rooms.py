"""Answers about rooms. Rooms are strings: they go up to 2^63."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ..fields import Moment, Room
from .base import Answer, page_of

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class OwnCollisionAnswer(Answer):
    """A binding of this room that displaced another while that one was alive."""

    before = Int(help_text="DP rank.")
    after = Int(help_text="DP rank.")
    at = Moment()


class OwnReuseAnswer(Answer):
    """A binding of this room after an earlier one was over."""

    before = Int(help_text="DP rank.")
    after = Int(help_text="DP rank.")
    late = Bool(help_text="The same DP rank again: rather a late word of the same request than another one.")
    over = serializers.ChoiceField(["expired", "evicted"])
    expired_at = Moment(help_text="When the earlier binding expired, or would have.")
    at = Moment()


class RoomAnswer(Answer):
    """The last binding of a room in one instance."""

    instance = Chars()
    room = Room()
    dp_rank = Int(source="dp")
    live = Bool()
    expires_at = Moment()
    collisions = OwnCollisionAnswer(many=True)
    reuses = OwnReuseAnswer(many=True)


class BoundRoomAnswer(Answer):
    """A living room of an instance."""

    instance = Chars()
    room = Room()
    dp_rank = Int(source="dp")
    expires_at = Moment()


class FoundRoomAnswer(Answer):
    """Where a room is bound, living bindings first; empty when nobody posted it (follow_bootstrap_room never does)."""

    room = Room()
    items = RoomAnswer(many=True)


class CollisionAnswer(OwnCollisionAnswer):
    """A room that was bound to another DP rank while its first binding was alive."""

    instance = Chars()
    room = Room()


class ReuseAnswer(Answer):
    """A room that was bound once more after its binding was over."""

    instance = Chars()
    room = Room()
    reuse = OwnReuseAnswer()


RoomsAnswer: Any = page_of(BoundRoomAnswer, "RoomPage")
CollisionsAnswer: Any = page_of(CollisionAnswer, "CollisionPage")
ReusesAnswer: Any = page_of(ReuseAnswer, "ReusePage")
