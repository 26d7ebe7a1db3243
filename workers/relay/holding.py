"""What the relay holds of its instance: registrations by launch, as they were acknowledged, and what the control plane said last.

It decides nothing about launches. Who registered together is told apart by token; without one, as far as SGLang's own server
would (a slot, an address). What is answered while the control plane is away follows from who is whole and who has ended. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from controlplane.domain.directory import Directory, Registration
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Launch, Row
from controlplane.domain.topology import Slot
from controlplane.protocol import kv
from controlplane.protocol.observed import read_topology

from .records import Dropped, Minted, Put, Record, Taken, Told

MOST_LAUNCHES = 4
MOST_SEATS = 8192
MOST_TOKENS = 64


@dataclass(slots=True)
class Seat:
    """One registration that was acknowledged."""

    put: Put
    said: Registration
    refused: str = ""

    @property
    def slot(self) -> Slot:
        return self.said.slot


Alive = Callable[[Seat], bool | None]
"""Whether the rank in a seat lives; None: nobody here can tell."""


@dataclass(slots=True)
class Held:
    """The registrations of one launch, and the launch as the domain has it."""

    launch: Launch
    seats: dict[Slot, Seat] = field(default_factory=dict)

    def ended(self, alive: Alive) -> bool:
        """Whether a rank of it is known to be gone: an engine that loses one serves no more."""
        return any(alive(seat) is False for seat in self.seats.values())

    def gone(self, alive: Alive) -> bool:
        """Whether all of them are."""
        return all(alive(seat) is False for seat in self.seats.values())

    def last(self) -> int:
        return max(seat.put.n for seat in self.seats.values())


def identity_of(launch: Launch | None) -> Hashable | None:
    """What a decode may have cached of it: the sizes, what all ranks share, and where each rank is."""
    if launch is None:
        return None
    # Of the method, the topology answer tells no more than this.
    method = "follow_bootstrap_room" if launch.facts.follow_bootstrap_room else "other"
    facts = replace(launch.facts, load_balance_method=method)
    return launch.topology, facts, frozenset((slot, row.ip, row.port) for slot, row in launch.rows.items())


class Holding:
    """Oldest launch first. Every change is a record, and records in order make it again; `version` counts them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.launches: list[Held] = []
        self.told: Launch | None = None
        self._told: Told | None = None
        # The control plane's topology answer, while what it serves is too large for a copy.
        self.uncopied, self._uncopied_at = "", -1e9
        self.tokens: dict[str, str] = {}
        self.next = 1
        self.version = 0

    # Changes.
    def apply(self, record: Record) -> None:
        """One that was written down. Records about rooms are for others."""
        self.version += 1
        match record:
            case Put():
                self.next = max(self.next, record.n + 1)
                self._seat(Seat(record, kv.read_register(record.body.encode(), token=record.token)))
            case Taken():
                seat = self.seat(record.n)
                if seat is not None:
                    seat.put.pending, seat.refused = False, record.refused
            case Minted():
                self.tokens.pop(record.identity, None)
                self.tokens[record.identity] = record.token
                if len(self.tokens) > MOST_TOKENS:
                    del self.tokens[next(iter(self.tokens))]
            case Dropped():
                self.launches = [held for held in self.launches if held.last() > record.n or not _has(held, record.n)]
            case Told():
                self._told, self.told, self.uncopied = record, launch_of(record), ""

    def uncopy(self, topology: str, at: float) -> None:
        """It serves this, of which no copy is kept: what was served before says nothing of it."""
        self._uncopied_at = at
        if self.uncopied != topology:
            self.uncopied, self._told, self.told = topology, None, None
            self.version += 1

    def check(self, said: Registration, alive: Alive) -> None:
        """Raises Refused (conflict) for what contradicts a living rank of the same launch, as the control plane would."""
        if self.is_full(said):
            raise Refused(f"this relay holds {MOST_SEATS} registrations already", code="unavailable")
        held = self._held_with(said.token) if said.token is not None else None
        if held is None:
            return
        others = [s for s in held.seats.values() if s.slot != said.slot and alive(s) is True]
        disagreement = held.launch.facts.disagreement(said.facts)
        what = "the topology" if held.launch.topology != said.topology else disagreement[0] if disagreement else ""
        if others and what:
            raise Refused(
                f"{what} differs within one launch: {said.slot} contradicts {others[0].slot}", code="conflict"
            )

    def is_full(self, said: Registration) -> bool:
        """Whether so many are held that another cannot be."""
        held = self._held_with(said.token)
        return (held is None or said.slot not in held.seats) and sum(1 for _ in self.seats()) >= MOST_SEATS

    def drop_ended(self, alive: Alive) -> list[Record]:
        """Launches of which nobody is left, and those that are too many. The newest stays, whatever became of it."""
        records: list[Record] = []
        newest = self.launches[-1].launch if self.launches else None
        for held in self.launches[:-1]:
            # Without tokens nobody can tell whether the one before has ended; a whole one after it is as good as that.
            replaced = newest is not None and newest.token is held.launch.token is None and newest.full
            if replaced or held.gone(alive) or len(self.launches) - len(records) > MOST_LAUNCHES:
                records.append(Dropped(held.last()))
        for record in records:
            self.apply(record)
        return records

    # What is there.
    @property
    def told_text(self) -> str | None:
        """The control plane's topology answer, as it said it last."""
        return self._told.topology if self._told is not None else self.uncopied or None

    def differs(self, told: Told) -> bool:
        """Whether it says something else than what was written down of the control plane last."""
        last = self._told
        return last is None or (last.topology, last.slots) != (told.topology, told.slots)

    def seat(self, n: int) -> Seat | None:
        return next((seat for seat in self.seats() if seat.put.n == n), None)

    def was_taken_over(self, seat: Seat) -> bool:
        """Whether somebody registered since from the very address of this seat."""
        return any(other.said.address == seat.said.address and other.put.n > seat.put.n for other in self.seats())

    def seats(self) -> Iterator[Seat]:
        for held in self.launches:
            yield from held.seats.values()

    def pending(self, alive: Alive) -> list[Seat]:
        """What the control plane must be told still, in the order in which it came. Who has ended need not be."""
        waiting = [seat for seat in self.last_words() if seat.put.pending and alive(seat) is not False]
        return sorted(waiting, key=lambda seat: seat.put.n)

    def last_words(self) -> Iterator[Seat]:
        """Every seat but those whose slot was registered again since, by somebody who has no token either."""
        nameless: set[Slot] = set()
        for held in reversed(self.launches):
            for slot, seat in held.seats.items():
                if held.launch.token is not None or slot not in nameless:
                    yield seat
            if held.launch.token is None:
                nameless.update(held.seats)

    def serving(self, alive: Alive) -> Launch | None:
        """What look-ups are answered from while the control plane is away: the newest that is whole and has not ended. What
        the control plane said last stands before what was registered before it, and behind what came since; of that no copy
        may be kept, and then nothing stands there."""
        if self.uncopied:
            since = [held for held in self.launches if _at(held) > self._uncopied_at]
            return next(
                (replace(h.launch, complete=True) for h in reversed(since) if h.launch.full and not h.ended(alive)),
                None,
            )
        for held in reversed(self.launches):
            if self._told is not None and held.last() and _at(held) <= self._told.at:
                break
            if held.launch.full and not held.ended(alive):
                return replace(held.launch, complete=True)
        if self.told is not None and not self._told_ended(alive):
            return self.told
        for held in reversed(self.launches):
            if held.launch.full and not held.ended(alive):
                return replace(held.launch, complete=True)
        return None

    def directory(self, serving: Launch | None) -> Directory:
        """As the wire's own answers are made from."""
        if serving is not None:
            return Directory(self.name, replace(serving, complete=True))
        newest = self.launches[-1].launch if self.launches else None
        return Directory(self.name, replace(newest, complete=False) if newest is not None else None)

    def spread(self) -> bool:
        """Whether somebody registered without a token, as a rank on another host does, whose process is not seen: all ranks
        of a launch have one token or none, so nobody gets one then."""
        return any(seat.put.token is None for seat in self.seats())

    def minted_here(self) -> list[Seat]:
        """Those that were given a token by this relay."""
        minted = set(self.tokens.values())
        return sorted((seat for seat in self.seats() if seat.put.token in minted), key=lambda seat: seat.put.n)

    def records(self) -> Iterator[Record]:
        """All that must be written down to have it again."""
        for identity, token in self.tokens.items():
            yield Minted(identity, token)
        if self._told is not None:
            yield self._told
        for seat in sorted(self.seats(), key=lambda seat: seat.put.n):
            yield seat.put
            if seat.refused:
                yield Taken(seat.put.n, seat.refused)

    def _seat(self, seat: Seat) -> None:
        held = self._launch_for(seat.said)
        said, now = seat.said, seat.put.at
        launch = held.launch
        holder = launch.at.get(said.address)
        if holder is not None and holder != said.slot:
            # An address is one rank: the last word counts.
            launch = launch.without([holder])
            held.seats.pop(holder, None)
        row = Row(said.slot, said.ip, said.port, said.http_port, now, now)
        held.launch = launch.with_row(row, now=now, facts=said.facts)
        held.seats[said.slot] = seat

    def _launch_for(self, said: Registration) -> Held:
        held = self._held_with(said.token)
        if held is not None and held.launch.agrees(said.topology, said.facts):
            owner = held.launch.rows.get(said.slot)
            if said.token is not None or owner is None or owner.address == said.address:
                return held
        if held is not None and said.token is not None:
            # The same launch in another shape: what stood there has ended, or it would have been refused.
            self.launches.remove(held)
        number = max((held.launch.number for held in self.launches), default=0) + 1
        fresh = Held(Launch(number, said.token, said.topology, said.facts, {}, 0.0, 0.0))
        self.launches.append(fresh)
        return fresh

    def _held_with(self, token: str | None) -> Held | None:
        return next((held for held in reversed(self.launches) if held.launch.token == token), None)

    def _told_ended(self, alive: Alive) -> bool:
        """Whether a rank that the control plane serves is known here to be gone."""
        assert self.told is not None
        for held in self.launches:
            for slot, seat in held.seats.items():
                row = self.told.rows.get(slot)
                if row is None or row.address != seat.said.address or alive(seat) is not False:
                    continue
                if not self._living_at(row.ip, row.port, alive):
                    return True
        return False

    def _living_at(self, ip: str, port: int, alive: Alive) -> bool:
        return any(seat.said.address == (ip, port) and alive(seat) is not False for seat in self.seats())


def launch_of(told: Told) -> Launch:
    """What the control plane served, as the domain has it. Raises Refused for what is none."""
    topology, facts, http_port = read_topology(told.topology.encode())
    rows = {
        Slot(dp, cp, tp, pp): Row(Slot(dp, cp, tp, pp), ip, port, http_port, told.at, told.at)
        for dp, cp, tp, pp, ip, port in told.slots
    }
    at = {row.address: slot for slot, row in rows.items()}
    return Launch(0, told.token, topology, facts, rows, told.at, told.at, told.at, True, True, at=at)


def _at(held: Held) -> float:
    return max(seat.put.at for seat in held.seats.values())


def _has(held: Held, n: int) -> bool:
    return any(seat.put.n == n for seat in held.seats.values())
