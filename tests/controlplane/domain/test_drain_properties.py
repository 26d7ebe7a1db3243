"""Whatever happens, in whatever order: drained is never said without its proof, and always in the end with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.admission import Cordon, Gateway, Router, Selectors
from controlplane.domain.drain import Evidence, Memory, Progress, Room, Rooms, State, evaluate, safe_to_delete
from controlplane.domain.witness import APART_SECONDS, Reading, Watch

P = Progress
LEASE = 15.0
ASKED = 50

# What one gateway shows at one look: acknowledged, or how it has not.
GATEWAY = st.sampled_from(["fine"] * 6 + ["silent", "behind", "other ledger", "beyond head"])
ROUTER = st.sampled_from(["absent"] * 6 + ["present", "away", "never looked at"])
RANK = st.sampled_from([0] * 6 + [1, 3, None, "missing", "old", "same"])
LOOK = st.fixed_dictionaries(
    {
        "gateways": st.lists(GATEWAY, max_size=3),
        "routers": st.lists(ROUTER, max_size=1),
        "ranks": st.tuples(RANK, RANK),
        "room": st.sampled_from([None] * 8 + ["old", "late"]),
        "restart": st.sampled_from([False] * 12 + [True]),
        "seconds": st.sampled_from([0.1, 1.0, 1.0, 1.0, 7.0]),
    }
)
GOOD = {
    "gateways": ["fine"],
    "routers": [],
    "ranks": (0, 0),
    "room": None,
    "restart": False,
    "seconds": 1.0,
}


@dataclass
class World:
    """Drives the drain with what hypothesis chose, and judges it by rules of its own."""

    group: int | None
    deadline_at: float | None
    now: float = 1000.0
    launch: int = 1
    state: State = field(init=False)
    rooms: Rooms = field(default_factory=Rooms)
    taken: dict[int, Reading] = field(default_factory=dict)
    # The judge's own book: since which look everybody has stopped without a break, and each rank's zeros since then.
    stopped_since: float | None = None
    zeros: dict[int, list[float]] = field(default_factory=lambda: {0: [], 1: []})

    def __post_init__(self) -> None:
        cordon = Cordon("ledger", ASKED, self.now, self.group)
        self.state = State(cordon, P.WAITING, 1, self.deadline_at, Memory())

    @property
    def wanted(self) -> list[int]:
        return [0, 1] if self.group is None else [self.group]

    def look(self, chosen: dict) -> None:
        self.now += chosen["seconds"]
        if chosen["restart"]:
            self.launch += 1
        gateways = [self._gateway(f"g{n}", how) for n, how in enumerate(chosen["gateways"])]
        routers = [self._router(f"r{n}", how) for n, how in enumerate(chosen["routers"])]
        if chosen["room"] == "old":
            self.rooms = Rooms(self.now + 4, self.rooms.late, self.rooms.late_until)
        elif chosen["room"] == "late":
            until = self.now + 4
            self.rooms = Rooms(self.rooms.until, Room(9, self.wanted[0], until), until)
        readings = [r for dp, what in enumerate(chosen["ranks"]) if (r := self._reading(dp, what)) is not None]
        seen = Evidence(
            Selectors("ledger", 100, gateways, routers),
            self.launch,
            2,
            Watch(True, tuple(g.name for g in gateways), bool(routers), exact=self.group is not None),
            readings,
            self.rooms,
        )
        before = self.state
        verdict = evaluate(before, seen, now=self.now)
        self.state = verdict.state
        self._judge(before, chosen, readings)

    def _gateway(self, name: str, how: str) -> Gateway:
        seen = self.now - LEASE - 1 if how == "silent" else self.now
        ledger = "before" if how == "other ledger" else "ledger"
        revision = {"behind": ASKED - 1, "beyond head": 101}.get(how, ASKED)
        return Gateway(name, seen, LEASE, ledger, revision)

    def _router(self, name: str, how: str) -> Router:
        return Router(name, how == "present", how != "away", None if how == "never looked at" else self.now)

    def _reading(self, dp: int, what: object) -> Reading | None:
        if what == "missing":
            return None
        if what == "same" and dp in self.taken:
            return self.taken[dp]
        age = 60.0 if what == "old" else 0.05
        held = what if what is None or isinstance(what, int) else 0
        self.taken[dp] = Reading("engine", "", dp, self.now - age, f"{self.now - age}", held)
        return self.taken[dp]

    def _judge(self, before: State, chosen: dict, readings: list[Reading]) -> None:
        said = {reading.dp: reading for reading in readings}
        fresh = {dp: reading for dp, reading in said.items() if self.now - reading.taken_at <= LEASE}
        stopped = (
            bool(chosen["gateways"] or chosen["routers"])
            and set(chosen["gateways"]) <= {"fine"}
            and set(chosen["routers"]) <= {"absent"}
        )
        if chosen["restart"] or not stopped:
            self.stopped_since = None
            self.zeros = {0: [], 1: []}
        for dp in (0, 1):
            reading = fresh.get(dp)
            if reading is None or reading.open != 0:
                self.zeros[dp] = []
            elif self.stopped_since is not None and reading.taken_at > self.stopped_since:
                known = self.zeros[dp]
                if not known or reading.taken_at - known[-1] >= APART_SECONDS:
                    known.append(reading.taken_at)
        if stopped and self.stopped_since is None:
            self.stopped_since = self.now
        live = self.rooms.until > self.now or self.rooms.late_until > self.now
        if self.state.progress is P.DRAINED:
            # At every look: nothing that was seen speaks against it.
            assert not live
            assert not {"behind", "other ledger", "beyond head"} & set(chosen["gateways"])
            assert "present" not in chosen["routers"]
            assert not any(said[dp].open for dp in self.wanted if dp in fresh)
            assert self.state.launch == self.launch
        if self.state.progress is P.DRAINED and before.progress is not P.DRAINED:
            # When it is said: the whole proof.
            assert stopped and not chosen["restart"]
            for dp in self.wanted:
                assert len(self.zeros[dp]) >= 2, (dp, self.zeros)
        assert safe_to_delete(self.state.progress, self.state.launch, self.launch) == (self.state.progress is P.DRAINED)


@settings(max_examples=300, deadline=None)
@given(st.lists(LOOK, max_size=25), st.sampled_from([None, 0, 1]), st.sampled_from([None, 1004.0]))
def test_drained_is_never_said_without_its_proof(looks, group, deadline_at):
    world = World(group, deadline_at)
    for chosen in looks:
        world.look(chosen)


# Most looks are good ones, so that drained is reached and left again.
@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.just(GOOD), st.just(GOOD), st.just(GOOD), LOOK), max_size=30), st.sampled_from([None, 1]))
def test_nor_when_all_is_well_for_most_of_the_time(looks, group):
    world = World(group, None)
    for chosen in looks:
        world.look(chosen)


@settings(max_examples=100, deadline=None)
@given(st.lists(LOOK, max_size=10), st.sampled_from([None, 0, 1]), st.sampled_from([None, 1004.0]))
def test_and_when_all_is_well_it_is_said_within_a_few_looks(looks, group, deadline_at):
    world = World(group, deadline_at)
    for chosen in looks:
        world.look(chosen)
    for _ in range(5 + 3):
        world.look(GOOD)
    assert world.state.progress is P.DRAINED
