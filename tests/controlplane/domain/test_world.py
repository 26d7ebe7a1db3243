"""A small world of real launches, ranks that listen or not, and post that is late or lost: whatever happens in it,
the directory never mixes launches, never opens incomplete, opens in the end, and all it does can be followed."""

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from controlplane.domain import snapshot
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Registration
from controlplane.domain.launch import CONFIRM_AFTER, JOIN_WINDOW, Address
from controlplane.domain.topology import SharedFacts, Slot, Topology
from tests.controlplane.domain.keeper import Keeper

TRIES = 5
RETRY_SECONDS = (1.0, 2.0, 4.0, 5.0)
PORTS = range(1, 7)
TOPOLOGIES = [Topology(1, 1, 2, 1), Topology(1, 1, 1, 1), Topology(2, 1, 1, 1), Topology(2, 1, 2, 1)]
FACTS = [SharedFacts(64, "auto"), SharedFacts(16, "auto"), SharedFacts(64, "auto", kv_layout="hnd")]
# Where ranks live: a network that we reach, one that drops what we send, one that we may not ask.
REACHED, UNREACHED, OUTSIDE = "10.0.0.1", "10.9.9.9", "203.0.113.7"
HOSTS = [REACHED, REACHED, UNREACHED, OUTSIDE]
TURNS = [0.4, 1.0, 3.0, 14.0, 61.0]

pick = st.integers(0, 63)


@dataclass(eq=False)
class Process:
    """One rank of one real launch. `heard_ok` is what its client believes."""

    launch: "Real"
    slot: Slot
    port: int
    alive: bool = True
    tries: int = 0
    heard_ok: bool = False
    evicted: bool = False
    http_port: int = 30000

    def __repr__(self) -> str:
        state = "alive" if self.alive else "dead"
        return f"<{self.launch} {self.slot} @{self.port} {state} tries={self.tries} ok={self.heard_ok}>"

    @property
    def address(self) -> Address:
        return (self.launch.host, self.port)

    @property
    def put(self) -> Registration:
        real = self.launch
        flags = ("unprobed",) if real.host == OUTSIDE else ()
        return Registration(
            self.slot, real.topology, real.facts, real.host, self.port, self.http_port, real.token, flags
        )

    @property
    def willing(self) -> bool:
        return self.alive and not self.heard_ok and self.tries < TRIES


@dataclass(eq=False)
class Real:
    """A launch as it really is, which the directory can only guess."""

    number: int
    host: str
    token: str | None
    topology: Topology
    facts: SharedFacts
    ranks: list[Process] = field(default_factory=list)
    put_first: int = 0
    put_last: int = 0
    mended: bool = False
    # When it was last heard of, and whether it once was silent for so long that its launch closed to others.
    put_at: float | None = None
    slow: bool = False

    def __repr__(self) -> str:
        return (
            f"real{self.number}({self.host} {self.token} {self.topology} {self.facts.page_size} {self.facts.kv_layout})"
        )

    @property
    def lives(self) -> bool:
        return any(rank.alive for rank in self.ranks)

    @property
    def lives_fully(self) -> bool:
        return all(rank.alive for rank in self.ranks)

    @property
    def registered(self) -> bool:
        return self.lives_fully and all(rank.heard_ok and not rank.evicted for rank in self.ranks)

    def looks_like(self, other: "Real") -> bool:
        """Nothing that either sends could tell them apart."""
        return (self.token, self.topology) == (other.token, other.topology) and self.facts.disagreement(
            other.facts
        ) is None


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.keeper = Keeper()
        # Ahead of the real clock, which loading uses for a round that was under way.
        self.now = time.time() + 10_000
        self.reals: list[Real] = []
        self.post: list[tuple[float, Process]] = []
        self.senders: dict[Address, list[Process]] = defaultdict(list)
        self.heard: dict[Address, tuple[Contact, float]] = {}
        self.refusing: dict[Address, float] = {}
        self.superseded = False
        # Launches that lack a rank because an operator evicted it: they protect nobody until it is back.
        self.opened: set[int] = set()
        self.puts = 0
        # Where a living rank listens that was told no: whoever registered there before seems to answer for ever.
        self.squatters: set[Address] = set()

    def teardown(self) -> None:
        self.come_to_rest()
        for kind in sorted(set(self.keeper.kinds)):
            event(kind)
        self.keeper.forget()

    # --- what happens to the workers -------------------------------------------------------------------------

    @rule(shape=pick, facts=pick, host=pick, with_token=st.booleans(), ports=st.permutations(PORTS))
    def start(self, shape, facts, host, with_token, ports):
        self.begin(
            self.chosen(TOPOLOGIES, shape), self.chosen(FACTS, facts), self.chosen(HOSTS, host), with_token, ports
        )

    def begin(self, topology, facts, host, with_token, ports):
        number = len(self.reals) + 1
        real = Real(number, host, f"t{number}" if with_token else None, topology, facts)
        living = [other for other in self.reals if other.lives]
        for other in living:
            # Two living launches that look alike are one to anybody; then the older one is restarted.
            if len(living) > 1 or other.looks_like(real):
                self.end(other)
        taken = {rank.port for other in self.reals for rank in other.ranks if rank.alive and other.host == host}
        free = [port for port in ports if port not in taken]
        if len(free) < topology.size:
            return
        real.ranks = [Process(real, slot, port) for slot, port in zip(topology.slots(), free, strict=False)]
        self.reals.append(real)

    @precondition(lambda self: any(real.lives for real in self.reals))
    @rule(which=pick)
    def restart_whole(self, which):
        """The usual thing: a launch ends and comes again as it was, on ports the kernel picks."""
        old = self.chosen([real for real in self.reals if real.lives], which)
        self.end(old)
        self.begin(old.topology, old.facts, old.host, old.token is not None, PORTS[which % 3 :])

    @precondition(lambda self: self.living())
    @rule(which=pick, port=st.sampled_from(PORTS))
    def restart_alone(self, which, port):
        """A DP engine, say, whose neighbours live on."""
        old = self.chosen(self.living(), which)
        real = old.launch
        if all((real.host, port) != rank.address for rank in self.living()):
            old.alive = False
            real.ranks[real.ranks.index(old)] = Process(real, old.slot, port)
            real.mended = True

    @precondition(lambda self: self.living())
    @rule(which=pick)
    def die(self, which):
        self.chosen(self.living(), which).alive = False

    @precondition(lambda self: self.living())
    @rule(which=pick)
    def die_whole(self, which):
        self.end(self.chosen(self.living(), which).launch)

    # --- what the workers send -------------------------------------------------------------------------------

    @precondition(lambda self: self.willing())
    @rule(which=pick)
    def put(self, which):
        self.attempt(self.chosen(self.willing(), which))

    @precondition(lambda self: self.willing())
    @rule(which=pick)
    def put_many(self, which):
        """One transaction for the whole launch, as when it comes up."""
        self.attempt(*(rank for rank in self.chosen(self.willing(), which).launch.ranks if rank.willing))

    @precondition(lambda self: self.willing())
    @rule(which=pick, arrives_now=st.booleans())
    def put_but_lose_the_reply(self, which, arrives_now):
        rank = self.chosen(self.willing(), which)
        rank.tries += 1
        if arrives_now:
            self.deliver(rank)
        else:
            self.post.append((self.now, rank))

    @precondition(lambda self: self.living())
    @rule(which=pick, http_port=st.sampled_from([30000, 30000, 30001]))
    def put_again(self, which, http_port):
        rank = self.chosen(self.living(), which)
        if rank.heard_ok:
            rank.http_port = http_port
            self.deliver(rank)

    @precondition(lambda self: self.post)
    @rule(which=pick)
    def post_arrives(self, which):
        sent, rank = self.post.pop(which % len(self.post))
        if self.now - sent < 60:
            self.deliver(rank)

    # --- what we see, do, and what is done to us -------------------------------------------------------------

    @precondition(lambda self: self.keeper.wanted)
    @rule(which=pick, lost=st.booleans(), late=st.booleans())
    def probe_one(self, which, lost, late):
        due = [address for address, at in self.keeper.wanted.items() if at <= self.now]
        if not due:
            return
        address = self.chosen(due, which)
        del self.keeper.wanted[address]
        answer = self.truth(address)
        if late:
            self.now += 0.9
        if not lost:
            self.see({address: answer})

    @rule()
    def sweep(self):
        self.see({address: self.truth(address) for address in self.keeper.directory.watched(self.now)})

    @rule(seconds=st.sampled_from(TURNS))
    def time_passes(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.keeper.directory.debt is not None and not self.keeper.directory.debt.hold)
    @rule()
    def pollers_were_told(self):
        self.keeper.flushed(self.now)

    @rule()
    def restart_of_ours(self):
        before = snapshot.take(self.keeper.directory, self.keeper.instance.engines)
        self.keeper.restart()
        self.refusing.clear()
        after = snapshot.take(self.keeper.directory, self.keeper.instance.engines)
        assert before == after

    @precondition(lambda self: any(launch.rows for launch in self.keeper.directory.launches()))
    @rule(which=pick, whole=st.booleans())
    def evict(self, which, whole):
        launches = list(self.keeper.directory.launches())
        rows = [row for launch in launches for row in launch.rows.values()]
        slot = None if whole else self.chosen(rows, which).slot
        # With everybody goes whoever claimed a slot and waited for proof that its owner died.
        claims = [row for launch in launches for row in launch.claims.values()] if whole else []
        current, candidate = self.keeper.directory.current, self.keeper.directory.candidate
        if current is not None and candidate is not None and slot in current.rows:
            # A launch that lacks a rank protects nobody: the one that waits may now replace those that live on.
            self.superseded = True
        elif current is not None and slot in current.rows:
            self.opened.add(current.number)  # and so may one that comes later
        for row in rows + claims:
            if slot in (None, row.slot):
                for rank in self.senders[row.address]:
                    rank.evicted = True
        self.keeper.order("evict", self.now, slot)

    @precondition(lambda self: self.keeper.directory.candidate is not None)
    @rule()
    def supersede(self):
        before = self.keeper.directory.current
        self.keeper.order("supersede", self.now)
        if self.keeper.directory.current is not before:
            # Whoever was replaced on purpose need not come back, nor those that were refused meanwhile.
            self.superseded = True

    @rule()
    def rest(self):
        self.come_to_rest()

    # --- what must hold ---------------------------------------------------------------------------------------

    def follow_the_opened(self):
        launches = {launch.number: launch for launch in self.keeper.directory.launches()}
        for number in sorted(self.opened):
            if number not in launches:
                self.superseded = True
            if number not in launches or launches[number].complete:
                self.opened.discard(number)

    @invariant()
    def all_holds(self):
        self.follow_the_opened()
        self.never_opens_incomplete()
        self.never_serves_two_launches_that_could_be_told_apart()
        self.events_lead_a_reader_to_the_same_state()
        self.what_is_stored_is_what_holds()

    def never_opens_incomplete(self):
        serving = self.keeper.directory.serving
        if serving is not None:
            assert set(serving.rows) == set(serving.topology.slots())

    def never_serves_two_launches_that_could_be_told_apart(self):
        serving = self.keeper.directory.serving
        if serving is None:
            return
        for row in serving.rows.values():
            senders = [rank for rank in self.senders[row.address] if rank.slot == row.slot]
            assert any(self.could_be(rank.launch, serving) for rank in senders), (row, senders)
            if row.greeted and row.probeable:
                # Seen to refuse twice, at the time that counts, and still served?
                assert row.address not in self.refusing or self.now_is_first_refusal(row), row

    def events_lead_a_reader_to_the_same_state(self):
        assert self.keeper.followed == snapshot.take(self.keeper.directory, self.keeper.instance.engines)

    def what_is_stored_is_what_holds(self):
        stored = self.keeper.stored()
        held = snapshot.take(self.keeper.directory, self.keeper.instance.engines)
        assert snapshot.take(stored.directory, stored.engines) == held
        assert stored.directory.next_number == self.keeper.directory.next_number

    # --- how it is done ---------------------------------------------------------------------------------------

    def come_to_rest(self):
        """Everything that is under way arrives; clients try again as SGLang's do; every probe is answered."""
        for sent, rank in self.post:
            if self.now - sent < 60:
                self.deliver(rank)
        self.post.clear()
        fresh = self.fresh_and_alone()
        reused = self.held() & {rank.address for rank in fresh}
        for turn in range(TRIES + 3):
            for rank in self.willing():
                self.attempt(rank)
            self.answer_all_probes()
            debt = self.keeper.directory.debt
            if debt is not None and not debt.hold:
                self.keeper.flushed(self.now)
            self.now += RETRY_SECONDS[min(turn, 3)]
        self.a_living_launch_is_served()
        # Two of them at ports of one dead launch, reused before anybody noticed, vouch for each other's predecessor.
        if len(reused) < 2 and len(self.held() & self.squatters) < 2:
            assert all(rank.heard_ok for rank in fresh), self.told(fresh)

    def fresh_and_alone(self):
        """Ranks that nobody else alive competes with, everybody within reach: no excuse to refuse them five times."""
        living = [real for real in self.reals if real.lives]
        if len(living) != 1 or not living[0].lives_fully or any(real.host != REACHED for real in self.reals):
            return []
        return [rank for rank in living[0].ranks if rank.tries == 0]

    def answer_all_probes(self):
        for _ in range(4):
            addresses = self.keeper.directory.watched(self.now) | set(self.keeper.wanted)
            self.keeper.wanted.clear()
            self.see({address: self.truth(address) for address in addresses})
            self.now += CONFIRM_AFTER + 0.02

    def a_living_launch_is_served(self):
        self.follow_the_opened()
        directory = self.keeper.directory
        good = [real for real in self.reals if real.registered and not self.is_hidden(real)]
        serving = directory.serving
        # One that lives and is held need not have heard so: every reply to it may be lost.
        served = [real for real in self.reals if real.lives_fully and serving is not None and self.is_in(real, serving)]
        if good and not self.superseded and not self.a_death_is_covered_up():
            event("at rest with a whole launch")
            assert served, self.told(good)
        if serving is not None:
            for row in serving.rows.values():
                assert not (row.greeted and self.truth(row.address) is Contact.REFUSED), row

    def told(self, *more):
        return json.dumps(snapshot.take(self.keeper.directory), indent=1, default=str), *more

    def a_death_is_covered_up(self):
        """Another process listens where a rank died, so the dead seems to answer: the newcomer was told no and left no
        other trace; or the dead rank's launch has a rank that lives and may not be displaced; or it moved within it."""
        current, candidate = self.keeper.directory.current, self.keeper.directory.candidate
        if self.held() & self.squatters or (candidate is not None and self.somebody_else_answers(candidate)):
            return True
        if current is None:
            return False
        lives = {rank.slot for rank in self.living() if self.holds(rank, current)}
        moved = any(real.mended for real in self.reals)
        return lives != set(current.rows) and bool(lives or moved)

    def somebody_else_answers(self, launch):
        """A rank that lives listens where another one of this launch died: a port that was reused twice."""
        there = {rank.address: rank.slot for rank in self.living()}
        return any(there.get(row.address, row.slot) != row.slot for row in launch.rows.values())

    def held(self):
        return {row.address for launch in self.keeper.directory.launches() for row in launch.rows.values()}

    def holds(self, rank, launch):
        """Whether this living rank is who the launch's row means."""
        row = launch.rows.get(rank.slot)
        return row is not None and row.address == rank.address and self.could_be(rank.launch, launch)

    def is_hidden(self, real):
        """Where nobody can be asked, whoever speaks last is believed, a look-alike that died half registered is not
        told apart, and ranks that register minutes apart are not known to belong together."""
        if real.host == REACHED:
            return False
        if real.mended or real.slow:
            return True
        others = [other for other in self.reals if other is not real and other.put_first]
        halves = [o for o in others if o.looks_like(real) and not all(r.heard_ok and not r.evicted for r in o.ranks)]
        same_ports = [
            rank for rank in real.ranks if len({id(sender.launch) for sender in self.senders[rank.address]}) > 1
        ]
        return bool(halves or same_ports) or any(other.put_last > real.put_first for other in others)

    def is_in(self, real, launch):
        return all(
            (row := launch.rows.get(rank.slot)) is not None and row.address == rank.address for rank in real.ranks
        )

    def could_be(self, real, launch):
        return (
            real.topology == launch.topology
            and real.facts.disagreement(launch.facts) is None
            and real.token == launch.token
        )

    def attempt(self, *ranks):
        for rank, refused in zip(ranks, self.deliver(*ranks), strict=True):
            rank.tries += 1
            rank.heard_ok = refused is None

    def deliver(self, *ranks):
        for rank in ranks:
            self.senders[rank.address].append(rank)
            self.puts += 1
            rank.launch.put_first = rank.launch.put_first or self.puts
            rank.launch.put_last = self.puts
            rank.launch.slow |= rank.launch.put_at is not None and self.now - rank.launch.put_at > JOIN_WINDOW
            rank.launch.put_at = self.now
        answers = self.keeper.put_many([rank.put for rank in ranks], self.now)
        for rank, refused in zip(ranks, answers, strict=True):
            if refused is None and rank.alive:
                rank.evicted = False
            if refused is not None and rank.alive:
                self.squatters.add(rank.address)
        return answers

    def see(self, answers):
        if not answers:
            return
        for address, contact in answers.items():
            if contact is Contact.REFUSED:
                self.refusing.setdefault(address, self.now)
            else:
                self.refusing.pop(address, None)
        self.keeper.observe(answers, self.now)

    def now_is_first_refusal(self, row):
        return self.now - self.refusing[row.address] < CONFIRM_AFTER or row.refused_at is not None

    def truth(self, address):
        host = address[0]
        if host != REACHED:
            return Contact.UNREACHED
        return Contact.UP if any(rank.address == address for rank in self.living()) else Contact.REFUSED

    def end(self, real):
        for rank in real.ranks:
            rank.alive = False

    def living(self):
        return [rank for real in self.reals for rank in real.ranks if rank.alive]

    def willing(self):
        return [rank for rank in self.living() if rank.willing]

    @staticmethod
    def chosen(things, which):
        return things[which % len(things)]


def settings_of(**more):
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    return settings(deadline=None, suppress_health_check=checks, **more)


@pytest.mark.timeout(300)
def test_whatever_happens_to_launches_the_directory_stays_right(_migrated):
    # The same worlds every time; new ones are for the soak.
    run_state_machine_as_test(World, settings=settings_of(max_examples=600, stateful_step_count=40, derandomize=True))


@pytest.mark.soak
def test_whatever_happens_for_long_the_directory_stays_right(_migrated):
    run_state_machine_as_test(World, settings=settings_of(max_examples=10_000, stateful_step_count=60))
