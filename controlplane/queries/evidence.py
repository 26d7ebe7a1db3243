"""All that is known of one room: every binding the journal still has, what they say of its way, and who holds it now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from controlplane.databases import TRAFFIC
from controlplane.domain import room_questions
from controlplane.domain.errors import Refused
from controlplane.domain.evidence import Displaced, Follower, Held, Ladder, ladder
from controlplane.domain.questions import Answer
from controlplane.domain.room_timeline import Moment, timeline
from controlplane.models import RoomBinding, RoomCollision

from . import left_addresses, memo, room_reports
from .explain import why_in_short
from .rooms import MAX_ROOM
from .rows import FleetRow, InstanceRow
from .seats import Group, SeatRow, groups

BINDINGS = 50
COLLISIONS = 50
HOLDERS = 8
FOLLOWERS = 20


@dataclass(frozen=True, slots=True)
class BoundRow:
    """One binding of the room; the newest of an instance counts, `overtaken` are those before it."""

    id: int
    instance: str
    dp: int
    bound_at: float
    expires_at: float
    live: bool
    overtaken: bool


@dataclass(frozen=True, slots=True)
class HolderRow:
    """An instance that the room is, or was, bound in. `row` is None for one that is not known any more.

    `seats` are the first ranks of the DP group in the current launch, `registered` all of them, of `expected`.
    """

    name: str
    dp: int
    expires_at: float
    live: bool
    row: InstanceRow | None
    seats: tuple[SeatRow, ...] = ()
    registered: int = 0
    expected: int = 0


@dataclass(frozen=True, slots=True)
class RoomEvidence:
    """`more`: there are older bindings than those that are listed. `followers`: how many prefills follow the room.
    `earlier`: reports about earlier uses of its number, which are not weighed. `answers`: the same as questions, in order."""

    room: int
    ladder: Ladder
    holders: tuple[HolderRow, ...]
    bindings: tuple[BoundRow, ...]
    more: bool
    collisions: tuple[tuple[str, Displaced], ...]
    followers: int
    timeline: tuple[Moment, ...]
    earlier: int
    answers: tuple[Answer, ...] = ()

    @property
    def live(self) -> bool:
        return any(holder.live for holder in self.holders)


def read_room(text: str) -> int:
    """A room as people write it. Raises Refused (malformed).

    >>> read_room(" 7301442885913264061 "), read_room("0")
    (7301442885913264061, 0)
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or int(digits) > MAX_ROOM:
        raise Refused(f"a room is a whole number from 0 to 2^63-1, not {text.strip()[:40]!r}", code="malformed")
    return int(digits)


def evidence(room: int, *, now: float) -> RoomEvidence:
    """The journal has no index by room, so this reads all of it: for people, not for the wire. Call it inside a snapshot."""
    found = memo.weighed(now=now).fleet
    names = {row.id: row for row in found.instances}
    journal = RoomBinding.objects.using(TRAFFIC).filter(room=room).order_by("-id")
    rows = list(journal[: BINDINGS + 1])
    last: dict[int, RoomBinding] = {}
    for row in rows:
        last.setdefault(row.instance_id, row)
    taken = _displaced(room)
    kept = sorted(last.values(), key=lambda row: (row.expires_ms <= now * 1000, -row.pk))[:HOLDERS]
    bound_at = max((_bound_at(row) for row in kept), default=0.0)
    told = room_reports.told(room, {id_: row.name for id_, row in names.items()}, bound_at=bound_at)
    said = left_addresses.marked(told.said, {row.name: row.id for row in found.instances})
    holders = _holders(kept, names, now)
    held = [_held(row, names, taken, now, holder) for row, holder in zip(kept, holders, strict=True)]
    followers = _followers(found, room, now, {one.instance for one in said})
    found_so_far = ladder(room, held, followers[:FOLLOWERS], said=said, asked=told.asked, now=now)
    return RoomEvidence(
        room,
        found_so_far,
        holders,
        tuple(_bound(row, names, last, now) for row in rows[:BINDINGS]),
        len(rows) > BINDINGS,
        tuple((_name(id_, names), one) for id_, ones in taken.items() for one in ones),
        len(followers),
        timeline(held, said, told.asked),
        told.earlier,
        room_questions.ask(room, found_so_far, held, followers[:FOLLOWERS], said),
    )


def _bound_at(row: RoomBinding) -> float:
    """Only the expiry is stored: this is right unless PDCP_ROOM_TTL_SECONDS was changed since."""
    return row.expires_ms / 1000 - settings.PDCP_ROOM_TTL_SECONDS


def _name(id_: int, names: dict[int, InstanceRow]) -> str:
    return names[id_].name if id_ in names else f"instance {id_}"


def _held(
    row: RoomBinding,
    names: dict[int, InstanceRow],
    taken: dict[int, list[Displaced]],
    now: float,
    holder: HolderRow,
) -> Held:
    one = names.get(row.instance_id)
    current = one.current if one is not None else None
    # A number may be used again: what happened before this binding could have met it is another request's story.
    since = _bound_at(row) - settings.PDCP_ROOM_TTL_SECONDS
    return Held(
        _name(row.instance_id, names),
        row.dp,
        _bound_at(row),
        row.expires_ms > now * 1000,
        current.number if current is not None else None,
        current.topology.dp if current is not None else None,
        follows(one),
        _because(one, now),
        tuple(displaced for displaced in taken.get(row.instance_id, ()) if displaced.at >= since),
        room_reports.doubts(one, row.dp, holder.seats, registered=holder.registered) if one is not None else (),
    )


def follows(row: InstanceRow | None) -> bool:
    """Whether the room's number says the DP group, so that nobody binds it."""
    current = row.current if row is not None else None
    return current is not None and current.facts.get("load_balance_method") == "follow_bootstrap_room"


def _because(row: InstanceRow | None, now: float) -> str:
    if row is None:
        return "that instance is not known here any more"
    return "" if row.serving else why_in_short(row, now=now).removesuffix(".")


def _followers(found: FleetRow, room: int, now: float, told: set[str]) -> list[Follower]:
    """Those that somebody reports of come first, with the ranks that such a request goes to."""
    rows = [row for row in found.instances if row.role == "prefill" and not row.retired and follows(row)]
    rows.sort(key=lambda row: (row.name not in told, row.name))
    of = [row for row in rows if row.name in told][:HOLDERS]
    group = {row.id: room % row.current.topology.dp for row in of if row.current is not None}
    seated = groups(list(group.items()))
    return [
        Follower(
            row.name,
            row.current.topology.dp,
            _because(row, now),
            _doubts_of(row, group[row.id], seated) if row.id in group else (),
        )
        for row in rows
        if row.current is not None
    ]


def _doubts_of(row: InstanceRow, dp: int, seated: Mapping[Group, tuple[SeatRow, ...]]) -> tuple[str, ...]:
    seats = seated.get((row.id, dp), ())
    return room_reports.doubts(row, dp, seats, registered=seats[0].of if seats else 0)


def _displaced(room: int) -> dict[int, list[Displaced]]:
    found: dict[int, list[Displaced]] = defaultdict(list)
    rows = RoomCollision.objects.using(TRAFFIC).filter(room=room).order_by("-id")[:COLLISIONS]
    for row in reversed(rows):
        found[row.instance_id].append(Displaced(row.before, row.after, row.at))
    return found


def _bound(row: RoomBinding, names: dict[int, InstanceRow], last: dict[int, RoomBinding], now: float) -> BoundRow:
    overtaken = last[row.instance_id].pk != row.pk
    expires = row.expires_ms / 1000
    live = expires > now and not overtaken
    return BoundRow(row.pk, _name(row.instance_id, names), row.dp, _bound_at(row), expires, live, overtaken)


def _holders(held: Sequence[RoomBinding], names: dict[int, InstanceRow], now: float) -> tuple[HolderRow, ...]:
    seated = groups([(row.instance_id, row.dp) for row in held])
    found = []
    for row in held:
        one = names.get(row.instance_id)
        current = one.current if one is not None else None
        size = current.expected // current.topology.dp if current is not None and row.dp < current.topology.dp else 0
        seats = seated.get((row.instance_id, row.dp), ())
        found.append(
            HolderRow(
                _name(row.instance_id, names),
                row.dp,
                row.expires_ms / 1000,
                row.expires_ms > now * 1000,
                one,
                seats,
                seats[0].of if seats else 0,
                size,
            )
        )
    return tuple(found)
