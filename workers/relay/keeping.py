"""The relay's state in one place: what is held, on disk and in memory, what is answered from it, and who is alive here."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Hashable, Iterator

from controlplane.domain.directory import Debt, Directory, Registration
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Launch

from . import processes
from .flushing import Health
from .holding import Holding, Seat, identity_of
from .journal import Journal
from .link import Link
from .processes import LaunchIdentity, Process
from .records import Dropped, Minted, Owed, Put, Record, Room, RoomsTaken, Taken, Told
from .rooms import RoomBook

log = logging.getLogger(__name__)

REWRITE_FROM = 4 * 2**20
LIFE_SECONDS = 0.25
"""For so long it is believed that a process runs."""

PORTS_SECONDS = 1.0
"""And for so long, who listens: reading that takes long on a host with many connections."""

MOST_LIVES = 10_000


class Keeping:
    """Belongs to one event loop. Times are seconds since the epoch, since they outlive this process."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        link: Link,
        *,
        room_seconds: float = 360.0,
        most_rooms: int = 200_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name, self.journal, self.link = name, journal, link
        self.holding = Holding(name)
        self.rooms = RoomBook(seconds=room_seconds, most=most_rooms)
        self._next_room = 1
        since: float | None = None
        before = journal.open()
        # A clock that was set back since: what comes now is later than what is written down all the same.
        behind = max(map(_when, before), default=0.0) - clock()
        self.clock = (lambda: clock() + behind) if behind > 0 else clock
        for record in before:
            match record:
                case Room():
                    self._next_room = max(self._next_room, record.n + 1)
                    if record.at + room_seconds > self.clock():
                        self.rooms.bind(record, self.clock())
                case RoomsTaken():
                    # Of a journal that was written anew: those rooms are over, and not in it any more.
                    self._next_room = max(self._next_room, record.n + 1)
                    self.rooms.took(record.n)
                case Owed():
                    since = record.since
                case _:
                    self._apply(record)
        self.health = Health(since=since, polled_before=self.clock() if before else None)
        self._lives: dict[str, tuple[float, bool | None]] = {}
        self._gone: set[tuple[str, int]] = set()
        self._listening: tuple[float, frozenset[int]] = (-1e9, frozenset())
        self._view: Launch | None = None
        self._identity: Hashable | None = None
        self._viewed_in: tuple[bool, int] = (False, -1)
        self._viewed_at = -1e9
        self._forced = False
        self.refresh()

    # What is answered.
    def refresh(self, *, forced: bool | None = None) -> None:
        """Look again at what would be served. `forced`: whether the control plane itself says 503 of it now."""
        if forced is not None:
            self._forced = forced
        now, state = time.monotonic(), (self.link.together, self.holding.version)
        if state != self._viewed_in or now - self._viewed_at >= LIFE_SECONDS:
            self._viewed_in, self._viewed_at = state, now
            self._view = self.holding.told if self.link.together else self.holding.serving(self.alive)
            # What is too large for a copy turns nothing here by being away.
            self._identity = identity_of(self._view) or self.holding.uncopied or None
        if self.health.serving(self._identity, now=self.clock(), forced=self._forced and self.link.together):
            self.note(Owed(self.health.since))
            if self.health.owes:
                log.warning("what was served is over; /health is 503 until all who poll it were told twice")
            else:
                log.info("everybody was told; %s is served again", self._view.topology if self._view else "nothing")

    @property
    def forced(self) -> bool:
        """Whether the control plane itself said 503 of its /health when it was looked at last."""
        return self._forced

    @property
    def view(self) -> Launch | None:
        return self._view

    def directory(self) -> Directory:
        """For the wire's own answers: nothing is served while decodes still have to drop what they cached."""
        directory = self.holding.directory(self._view)
        if self.health.since is not None:
            directory = Directory(self.name, directory.current, debt=Debt(self.health.since, True))
        return directory

    def alive(self, seat: Seat) -> bool | None:
        """Whether a rank lives; None: nobody here can tell. It is gone when the process that registered it is, and nobody
        listens on its port: somebody may have registered it for another."""
        process, port = seat.put.process, seat.said.port
        if not process:
            return None
        if (process, port) in self._gone:
            return False
        living = self._runs(process)
        if living is not False:
            return living
        if port in self._listened_on() and not self.holding.was_taken_over(seat):
            return None
        if len(self._gone) > MOST_LIVES:
            self._gone.clear()
        self._gone.add((process, port))
        return False

    def _runs(self, process: str) -> bool | None:
        now = time.monotonic()
        at, living = self._lives.get(process, (-1e9, None))
        if now - at >= LIFE_SECONDS:
            found = Process.parse(process)
            living = processes.is_alive(found) if found is not None else None
            if len(self._lives) > MOST_LIVES:
                self._lives.clear()
            self._lives[process] = (now, living)
        return living

    def _listened_on(self) -> frozenset[int]:
        now = time.monotonic()
        if now - self._listening[0] >= PORTS_SECONDS:
            self._listening = (now, processes.listening())
        return self._listening[1]

    # What is changed.
    def token_of(self, identity: LaunchIdentity | None) -> tuple[str | None, list[Record]]:
        """The token for ranks of a launch, minted once for each, and what has to be written down for it."""
        if identity is None or self.holding.spread():
            return None, []
        if identity.token is not None:
            return identity.token, []
        known = self.holding.tokens.get(identity.text)
        if known is not None:
            return known, []
        minted = Minted(identity.text, secrets.token_hex(16))
        self.holding.apply(minted)
        log.info(
            "a launch of the engine was seen, and has the token %s… from now on (%s)", minted.token[:8], identity.text
        )
        return minted.token, [minted]

    def untoken(self) -> list[Record]:
        """A rank of another host registered: those that were given a token are registered again without one, since all
        ranks of a launch have the same or none."""
        again: list[Record] = []
        minted = set(self.holding.tokens.values())
        over = [Dropped(held.last()) for held in self.holding.launches if held.launch.token in minted]
        for seat in self.holding.minted_here():
            if self.alive(seat) is not False:
                again.append(self.put(seat.put.body, None, seat.put.process, seat.put.source, pending=True))
        for record in over:
            self.holding.apply(record)
        again += over
        if again:
            log.warning(
                "a rank on another host registered here: from now on no launch gets a token, and a restart is told from the"
                " ranks alone, as without a relay (set PD_LAUNCH_TOKEN on all hosts of the engine to give it one)"
            )
        return again

    def put(self, body: str, token: str | None, process: str, source: str, *, pending: bool) -> Put:
        """Hold a registration. It may be acknowledged once the record that comes back is on disk."""
        put = Put(self.holding.next, body, self.clock(), token, process, source, pending)
        self.holding.apply(put)
        return put

    def settled(self, seat: Seat, refused: str = "") -> Taken:
        taken = Taken(seat.put.n, refused)
        self.holding.apply(taken)
        return taken

    def told(self, told: Told) -> None:
        self.holding.apply(told)
        self.note(told)
        self.refresh()

    def uncopy(self, topology: str) -> None:
        """The control plane serves what is too large for a copy."""
        old = self.holding.told is not None
        self.holding.uncopy(topology, self.clock())
        if old:
            self.journal.rewrite(self.records()).add_done_callback(_forget)
        self.refresh()

    def room(self, room: int, dp: int) -> Room:
        record = Room(self._next_room, room, dp, self.clock())
        self._next_room += 1
        self.rooms.bind(record, record.at)
        return record

    def check_dp(self, dp: int) -> None:
        """A DP rank that no launch has is a mistake of the sender. Raises Refused (malformed)."""
        sizes = [held.launch.topology.dp for held in self.holding.launches]
        if self._view is not None:
            sizes.append(self._view.topology.dp)
        if sizes and dp >= max(sizes):
            raise Refused(f"dp_rank {dp} does not exist in {self.name}, which has {max(sizes)}", code="malformed")

    def check(self, said: Registration) -> None:
        self.holding.check(said, self.alive)

    def note(self, *records: Record) -> None:
        """Write down what nobody waits for: without it we would only ask or tell again."""
        if records:
            self.journal.append(records).add_done_callback(_forget)

    def look(self) -> None:
        """Now and then: what time alone changes, and the journal's length."""
        self.rooms.sweep(self.clock())
        self.note(*self.holding.drop_ended(self.alive))
        self.refresh()
        if self.journal.size > max(REWRITE_FROM, 2 * self.journal.rewritten):
            self.journal.rewrite(self.records()).add_done_callback(_forget)

    def records(self) -> Iterator[Record]:
        yield from self.holding.records()
        yield from self.rooms.records()
        yield Owed(self.health.since)

    def _apply(self, record: Record) -> None:
        try:
            self.holding.apply(record)
        except Refused as problem:
            # Written by another version; the control plane, or the rank, tells again.
            log.error("a record of the journal is not understood, and left out: %s", problem.sentence)


def _when(record: Record) -> float:
    match record:
        case Put() | Room() | Told():
            return record.at
        case Owed():
            return record.since or 0.0
    return 0.0


def _forget(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
