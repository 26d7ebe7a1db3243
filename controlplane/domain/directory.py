"""The directory of one instance: at most two launches, what its /health owes, and how a change is gathered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .contact import Contact
from .errors import Refused
from .events import Event, HealthTurned, LaunchFactsFilled, RankClaimed, RankLeft, RankRegistered
from .launch import Address, Launch, Row, Workspace
from .topology import SharedFacts, Slot, Topology
from .values import value

FENCE_SECONDS = 60.0
"""How long after a promotion a PUT from a replaced launch counts as late."""


@value
class Registration:
    """One `PUT /route`, parsed and checked. `flags` come from where it was sent from, not from its body."""

    slot: Slot
    topology: Topology
    facts: SharedFacts
    ip: str
    port: int
    http_port: int | None = None
    token: str | None = None
    flags: tuple[str, ...] = ()
    # Sent from the host it advertises, which nobody elsewhere can pretend to be.
    home: bool = False

    @property
    def address(self) -> Address:
        return (self.ip, self.port)


@dataclass(frozen=True, slots=True)
class Debt:
    """`/health` is 503 since `since`; while `hold`, no flush ends it: a launch that served is not whole."""

    since: float
    hold: bool


@dataclass(frozen=True, slots=True)
class Fence:
    """Addresses of the launch replaced last, what they answered last, and the late PUTs that came from them."""

    at: float
    contacts: Mapping[Address, Contact] = field(default_factory=dict)
    late: Mapping[Address, Registration] = field(default_factory=dict)

    def covers(self, address: Address, now: float) -> bool:
        return now - self.at <= FENCE_SECONDS and address in self.contacts


@value
class Directory:
    """All that look-ups and `/health` of one instance are answered from."""

    name: str
    current: Launch | None = None
    candidate: Launch | None = None
    debt: Debt | None = None
    fence: Fence | None = None
    next_number: int = 1

    @property
    def serving(self) -> Launch | None:
        """The launch that look-ups are answered from; None while they must be answered 503."""
        current = self.current
        return current if current is not None and current.complete and self.debt is None else None

    @property
    def registered(self) -> int:
        """Distinct ranks, for the golden 503 text: of the launch that is being waited for."""
        waited_for = self.candidate or self.current
        return len(waited_for.rows) if waited_for else 0

    def launches(self) -> Iterator[Launch]:
        if self.current is not None:
            yield self.current
        if self.candidate is not None:
            yield self.candidate

    def watched(self, now: float) -> set[Address]:
        """Addresses whose life or death can still change something."""
        found = {row.address for launch in self.launches() for row in launch.rows.values() if row.probeable}
        for launch in self.launches():
            found.update(row.address for row in launch.claims.values() if row.probeable)
        if self.fence is not None and now - self.fence.at <= FENCE_SECONDS:
            found.update(self.fence.contacts)
        return found


@value
class Decision:
    """What a request or an observation comes to. Nothing of it holds before it is recorded.

    `events` change facts; `seen` are rows whose last-seen moved (no event); `probe` are addresses somebody
    should ask now, `again` those to ask once more after CONFIRM_AFTER; `refused` is the answer, if it is no.
    """

    directory: Directory
    events: tuple[Event, ...] = ()
    seen: tuple[tuple[int, Row], ...] = ()
    probe: frozenset[Address] = frozenset()
    again: frozenset[Address] = frozenset()
    refused: Refused | None = None
    claims: tuple[tuple[int, Mapping[Slot, Row]], ...] = ()
    fence: Fence | None = None
    """The fence, when its late PUTs are others than before: they were answered OK, so they must outlive us."""


NOBODY: frozenset[Address] = frozenset()


class Change:
    """A directory being changed: the one mutable thing of the domain, alive within one decision."""

    def __init__(self, directory: Directory, now: float, workspace: Workspace | None = None) -> None:
        self.workspace = workspace
        self.before = directory
        self.now = now
        self.current = directory.current
        self.candidate = directory.candidate
        self.debt = directory.debt
        self.fence = directory.fence
        self.next_number = directory.next_number
        self.events: list[Event] = []
        self.seen: list[tuple[int, Row]] = []
        self.probe: set[Address] = set()
        self.again: set[Address] = set()
        self.refused: Refused | None = None
        self.claims: dict[int, Mapping[Slot, Row]] = {}

    def put_back(self, launch: Launch) -> None:
        """Store a new value of a launch where its number belongs."""
        if self.current is not None and self.current.number == launch.number:
            self.current = launch
        else:
            self.candidate = launch

    def seat(self, launch: Launch, row: Row, facts: SharedFacts | None = None) -> Launch:
        """Give `row` its slot in `launch`. An address is one rank: whoever else held it there leaves."""
        holder = launch.at.get(row.address)
        if holder is not None and holder != row.slot:
            launch = self.unseat(launch, [holder], f"its address registered as {row.slot}")
        before = launch.rows.get(row.slot)
        seated = launch.with_row(row, self.workspace, now=self.now, facts=facts)
        if row.slot in seated.claims:
            seated = replace(seated, claims={s: r for s, r in seated.claims.items() if s != row.slot})
            self.claims[launch.number] = seated.claims
        self.events.append(RankRegistered(launch.number, row, before.address if before else None))
        if seated.facts != launch.facts:
            self.events.append(LaunchFactsFilled(launch.number, seated.facts))
        self.put_back(seated)
        if row.pending:
            self.probe.add(row.address)
        return seated

    def claim(self, launch: Launch, row: Row) -> None:
        """Keep that a rank with the launch's own token asked for a slot whose owner answers."""
        claims = {**launch.claims, row.slot: row}
        self.claims[launch.number] = claims
        self.put_back(replace(launch, claims=claims))
        self.events.append(RankClaimed(launch.number, row))

    def doubt(self, address: Address) -> None:
        """Whoever is at this address spoke as somebody else: remember it with the rows that say otherwise."""
        for launch in (self.current, self.candidate):
            slot = launch.at.get(address) if launch is not None else None
            if launch is not None and slot is not None and not launch.rows[slot].doubted:
                self.put_back(launch.refreshed(replace(launch.rows[slot], doubted=True), self.workspace))

    def unseat(self, launch: Launch, slots: list[Slot], reason: str) -> Launch:
        for slot in slots:
            self.events.append(RankLeft(launch.number, launch.rows[slot], reason))
        left = launch.without(slots, self.workspace)
        self.put_back(left)
        return left

    def owe(self, launch: int, *, hold: bool, reason: str) -> None:
        """Turn `/health` to 503, or keep it there; the flush counts from the first turn."""
        debt = Debt(self.now if self.debt is None else self.debt.since, hold)
        if debt != self.debt:
            self.debt = debt
            self.events.append(HealthTurned(launch, 503, debt.since, hold, reason))

    def clear_debt(self, launch: int, reason: str) -> None:
        self.debt = None
        self.events.append(HealthTurned(launch, 200, None, False, reason))

    def done(self) -> Decision:
        directory = Directory(self.before.name, self.current, self.candidate, self.debt, self.fence, self.next_number)
        return Decision(
            directory,
            tuple(self.events),
            tuple(self.seen),
            frozenset(self.probe) if self.probe else NOBODY,
            frozenset(self.again) if self.again else NOBODY,
            self.refused,
            tuple(self.claims.items()) if self.claims else (),
            self.fence if self.fence is not self.before.fence and self._late_moved() else None,
        )

    def _late_moved(self) -> bool:
        before = self.before.fence
        return (self.fence.late if self.fence else {}) != (before.late if before else {})
