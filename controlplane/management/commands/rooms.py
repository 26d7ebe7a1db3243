"""`manage.py rooms find ROOM`: where a room is bound, until when, and whether others claimed it."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.management.documents import room_document
from controlplane.management.operating import NOTHING, OK, OperatorCommand
from controlplane.queries.rooms import RoomRow, find_room
from controlplane.queries.wording import ago, counted, span


class Command(OperatorCommand):
    help = "Find a room (bootstrap_room): its instance, its DP rank, its expiry and its collisions."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="find")
        find = actions.add_parser("find", help="where a room is bound")
        find.add_argument("room", type=int, metavar="ROOM", help="the number that requests carry as bootstrap_room")
        self.add_json(find)

    def operate(self, options: dict[str, Any]) -> int:
        now = time.time()
        found = find_room(options["room"], now=now)
        if options["json"]:
            self.print_json({"room": str(options["room"]), "bindings": [room_document(row) for row in found]})
        else:
            self._tell(options["room"], found, now)
        return OK if any(row.live for row in found) else NOTHING

    def _tell(self, room: int, found: tuple[RoomRow, ...], now: float) -> None:
        if not found:
            self.say(
                f"Room {room} is not bound. With follow_bootstrap_room nobody binds rooms: the DP rank is room modulo DP size."
            )
        for row in found:
            if row.live:
                self.say(
                    f"Room {room} is bound to dp{row.dp} of {row.instance} for another {span(row.expires_at - now)}."
                )
            else:
                self.say(
                    f"Room {room} was bound to dp{row.dp} of {row.instance}; that expired {ago(row.expires_at, now)}."
                )
            if row.collisions:
                last = row.collisions[-1]
                self.say(
                    f"  It collided {counted(len(row.collisions), 'time')}: {ago(last.at, now)} dp{last.after} took it from"
                    f" dp{last.before} while that binding was alive."
                )
            if row.reuses:
                last_reuse = row.reuses[-1]
                what = "came late" if last_reuse.late else f"was used again by another, before by dp{last_reuse.before}"
                self.say(
                    f"  It came back {counted(len(row.reuses), 'time')} after its binding was over: {ago(last_reuse.at, now)}"
                    f" it {what}."
                )
        living = sum(row.live for row in found)
        if living > 1:
            self.say(f"{living} instances hold this room: two requests may carry the same number.")
