"""When a drain is drained: the table walked completely, and the yes and the no of each condition."""

from dataclasses import replace

import pytest

from controlplane.domain.admission import Cordon, Gateway, Router, Selectors
from controlplane.domain.drain import (
    OPEN,
    TRANSITIONS,
    Evidence,
    Memory,
    Progress,
    Room,
    Rooms,
    Sign,
    State,
    Verdict,
    evaluate,
    safe_to_delete,
    step,
)
from controlplane.domain.witness import Reading, Watch, open_requests

P, S = Progress, Sign
LEDGER = "ledger-1"


def test_the_table_is_walked_completely():
    ends = {(progress, sign): step(progress, sign) for progress in P for sign in S}
    moved = {pair: to for pair, to in ends.items() if to is not pair[0]}
    assert moved == dict(TRANSITIONS)
    # The ends are ends.
    assert not any(progress in (P.FORCED, P.CANCELLED) for progress, _ in moved)
    # Forced is never drained, and drained is never forced.
    assert {progress for progress, sign in moved if sign is S.FORCE} == set(OPEN) - {P.DRAINED}
    assert {progress for progress, sign in moved if sign is S.CANCEL} == set(OPEN)
    # Nothing but proof leads to drained.
    assert {sign for (_, sign), to in moved.items() if to is P.DRAINED} == {S.PROVEN}


def test_only_what_is_drained_may_be_deleted_and_only_that_launch():
    assert safe_to_delete("drained", 3, 3)
    assert not safe_to_delete("drained", 3, 4) and not safe_to_delete("drained", 3, None)
    assert not any(safe_to_delete(progress, 3, 3) for progress in P if progress is not P.DRAINED)


class Story:
    """A drain of an instance with two DP groups, one gateway that has acknowledged, an engine that holds nothing.

    `look()` is one look a second; tests change what is seen.
    """

    def __init__(self, *, group: int | None = None, deadline_at: float | None = None, groups: int | None = 2) -> None:
        self.now = 1000.0
        self.state = State(Cordon(LEDGER, 50, self.now, group), P.WAITING, 1, deadline_at, Memory())
        self.gateways = [Gateway("g1", self.now, 15.0, LEDGER, 60)]
        self.routers: list[Router] = []
        self.ledger, self.head = LEDGER, 100
        self.launch: int | None = 1
        self.groups = groups
        self.engine: dict[int, int | None] | None = {0: 0, 1: 0}
        self.others: list[Reading] = []
        self.rooms = Rooms()
        self.registers = True
        self.age = 0.1
        self.verdict: Verdict | None = None

    def look(self, times: int = 1) -> Verdict:
        for _ in range(times):
            self.now += 1.0
            gateways = [replace(g, seen_at=self.now) if g.seen_at > 0 else g for g in self.gateways]
            routers = [replace(r, checked_at=self.now) if r.checked_at else r for r in self.routers]
            readings = [
                Reading("engine", "", dp, self.now - self.age, str(self.now - self.age), held)
                for dp, held in (self.engine or {}).items()
            ]
            others = [replace(r, taken_at=self.now, mark=str(self.now)) if r.taken_at > 0 else r for r in self.others]
            seen = Evidence(
                Selectors(self.ledger, self.head, gateways, routers),
                self.launch,
                self.groups,
                Watch(
                    self.engine is not None,
                    tuple(g.name for g in gateways),
                    others_send=bool(routers),
                    exact=self.engine is not None and self.state.cordon.group is not None,
                ),
                [*readings, *others],
                self.rooms,
                self.registers,
            )
            self.verdict = evaluate(self.state, seen, now=self.now)
            self.state = self.verdict.state
        assert self.verdict is not None
        return self.verdict

    @property
    def progress(self) -> Progress:
        return self.state.progress

    def blocked_for_ever(self, *keys: str) -> bool:
        """Whether many looks change nothing, and these are the reasons."""
        verdict = self.look(20)
        assert {key.split(" dp")[0] for key in verdict.blockers} >= set(keys), verdict.blockers
        return self.progress is not P.DRAINED


def test_two_zeros_in_a_row_after_everybody_has_acknowledged_are_drained_and_one_is_not():
    story = Story()
    assert story.look().state.progress is P.EMPTY  # everybody has stopped, as of this look
    assert story.look().state.progress is P.EMPTY  # the first zero since
    assert story.look().state.progress is P.DRAINED
    assert story.verdict.blockers == {}


def test_a_reading_that_is_not_zero_or_missing_begins_the_count_anew():
    for disturbance in ({0: 1, 1: 0}, {0: 0}, {0: 0, 1: None}):
        story = Story()
        story.look(2)
        story.engine = disturbance
        assert story.look().state.progress is P.WAITING
        story.engine = {0: 0, 1: 0}
        assert story.look().state.progress is P.EMPTY
        assert story.look().state.progress is P.DRAINED


def test_the_same_snapshot_read_twice_is_one_reading():
    story = Story()
    story.look(2)
    story.age += 1.0
    assert story.look().state.progress is P.EMPTY
    story.age -= 1.0
    assert story.look().state.progress is P.DRAINED


def test_a_zero_from_before_the_cordon_was_acknowledged_proves_nothing():
    story = Story()
    story.gateways = [Gateway("g1", story.now, 15.0, LEDGER, 49)]
    assert story.blocked_for_ever("acknowledge g1")
    assert story.progress is P.EMPTY
    story.gateways = [Gateway("g1", story.now, 15.0, LEDGER, 50)]
    story.age = 5.0
    story.look(4)
    assert story.progress is P.EMPTY  # answers come, but their snapshots are still older than that
    story.look(10)
    assert story.progress is P.DRAINED


def test_a_gateway_that_is_silent_or_new_or_ahead_of_the_ledger_blocks():
    stale = Gateway("g2", -1.0, 15.0, LEDGER, 60)
    new = Gateway("g2", 1000.0, 15.0)
    beyond = Gateway("g2", 1000.0, 15.0, LEDGER, 101)
    elsewhere = Gateway("g2", 1000.0, 15.0, "ledger-0", 60)
    for gateway, key in ((stale, "silent g2"), *((g, "acknowledge g2") for g in (new, beyond, elsewhere))):
        story = Story()
        story.gateways.append(gateway)
        assert story.blocked_for_ever(key)
        story.gateways.pop()
        story.look(3)
        assert story.progress is P.DRAINED


def test_a_gateway_that_joins_while_the_drain_runs_must_acknowledge_too():
    story = Story()
    story.look(2)
    story.gateways.append(Gateway("g2", story.now, 15.0))
    assert story.look().state.memory.stopped_at is None
    story.gateways[1] = Gateway("g2", story.now, 15.0, LEDGER, 70)
    story.look(2)
    assert story.progress is P.EMPTY  # zeros from before it had stopped do not count
    story.look()
    assert story.progress is P.DRAINED
    # Even afterwards: it may choose this instance before it has read that it must not.
    story.gateways.append(Gateway("g3", story.now, 15.0))
    assert story.look().state.progress is P.WAITING


def test_a_router_must_have_been_seen_without_the_worker_since_the_drain_began():
    absent = Router("r", False, True, 1.0)
    for router, key in (
        (Router("r", True, True, 1.0), "present r"),
        (Router("r", True, False, 1.0), "away r"),
        (Router("r", False, False, 1.0), "away r"),
        (Router("r", False, True, None), "unseen r"),
    ):
        story = Story()
        story.routers = [router]
        assert story.blocked_for_ever(key)
        story.routers = [absent]
        story.look(3)
        assert story.progress is P.DRAINED


def test_a_router_cannot_spare_one_dp_group():
    story = Story(group=1)
    story.routers = [Router("r", True, True, 1.0)]
    assert story.blocked_for_ever("whole r")


def test_where_nobody_is_known_who_chooses_workers_admission_cannot_be_stopped():
    story = Story()
    story.gateways = []
    assert story.blocked_for_ever("nobody")
    assert story.progress is P.EMPTY
    assert any(said.startswith("cannot stop admission") for said in story.verdict.blockers.values())


def test_live_rooms_and_late_rooms_block_and_a_late_one_is_named():
    story = Story()
    story.rooms = Rooms(until=story.now + 10)
    assert story.look(5).blockers["rooms"] == "rooms that were bound to the instance before are still live"
    assert story.progress is P.WAITING
    story.rooms = Rooms(until=story.now + 2, late=Room(77, 1, story.now + 8), late_until=story.now + 8)
    said = story.look(5).blockers
    assert "rooms" not in said and said["late"].startswith("room 77 was bound to dp1 after the drain began")
    assert story.progress is P.WAITING
    story.look(4)
    assert story.progress is P.DRAINED
    story.rooms = Rooms(late=Room(78, 0, story.now + 8), late_until=story.now + 8)
    assert story.look().state.progress is P.WAITING


def test_who_may_have_sent_a_late_room_is_named():
    story = Story()
    story.gateways.append(Gateway("g2", story.now, 15.0))
    story.rooms = Rooms(late=Room(77, 1, story.now + 8), late_until=story.now + 8)
    assert story.look().blockers["late"].endswith("who sent it is not known, but gateway g2 may")


def test_without_a_witness_nothing_is_known_and_that_blocks():
    story = Story()
    story.engine = {}
    assert story.blocked_for_ever("silent the engine 0,1")
    story.engine = None
    assert story.blocked_for_ever("silent gateway g1 0,1")
    story.routers = [Router("r", False, True, 1.0)]
    assert story.blocked_for_ever("nobody  0,1")  # what gateways count is not all that is sent


def test_workers_can_be_the_witness_and_each_that_spoke_must_say_zero():
    story = Story()
    story.engine = None
    story.others = [Reading("worker", f"w{dp}", dp, 1.0, "", 0) for dp in (0, 1)]
    story.look(3)
    assert story.progress is P.DRAINED
    for word in (Reading("worker", "w3", 1, 1.0, "", 2), Reading("worker", "w3", 1, -100.0, "", 0)):
        story = Story()
        story.engine = None
        story.others = [*(Reading("worker", f"w{dp}", dp, 1.0, "", 0) for dp in (0, 1)), word]
        story.look(10)
        assert story.progress is P.WAITING


def test_gateways_can_be_the_witness_and_all_of_them_must_speak():
    story = Story()
    story.engine = None
    story.gateways.append(Gateway("g2", story.now, 15.0, LEDGER, 60))
    story.others = [Reading("gateway", "g1", dp, 1.0, "", 0) for dp in (0, 1)]
    assert story.blocked_for_ever("silent gateway g2 0,1")
    story.others.append(Reading("gateway", "g2", None, 1.0, "", 0))
    story.look(3)
    assert story.progress is P.DRAINED


def test_whoever_says_that_something_is_open_is_believed_beside_an_engine_that_holds_nothing():
    story = Story()
    story.others = [Reading("gateway", "g1", 1, 1.0, "", 3)]
    assert story.blocked_for_ever("busy gateway g1 1")
    story.others = []
    story.look()
    assert story.progress is P.DRAINED


def test_a_worker_that_died_with_requests_open_is_not_believed_for_ever_beside_an_engine_that_holds_nothing():
    story = Story()
    story.others = [Reading("worker", "w1", 1, -100.0, "", 3)]
    story.look(3)
    assert story.progress is P.DRAINED


def test_what_is_open_somewhere_in_the_instance_is_not_hidden_by_ranks_that_hold_nothing():
    story = Story()
    story.engine = None
    story.others = [Reading("gateway", "g1", dp, 1.0, "", 0) for dp in (0, 1)]
    story.others.append(Reading("gateway", "g1", None, 1.0, "", 3))
    assert story.blocked_for_ever("busy gateway g1 0,1")


def test_the_drain_of_one_dp_group_asks_for_that_group_alone():
    story = Story(group=1)
    story.engine = {0: 7, 1: 0}
    story.others = [Reading("gateway", "g1", 0, 1.0, "", 3), Reading("gateway", "g1", None, 1.0, "", 3)]
    story.look(3)
    assert story.progress is P.DRAINED
    story = Story(group=1)
    story.engine = {0: 0, 1: 7}
    assert story.blocked_for_ever("busy the engine 1")


def test_past_its_deadline_it_is_overdue_and_may_still_be_drained():
    story = Story(deadline_at=1002.5)
    story.engine = {0: 1, 1: 0}
    story.look(2)
    assert story.progress is P.WAITING
    story.look()
    assert story.progress is P.OVERDUE
    story.engine = {0: 0, 1: 0}
    story.look(3)
    assert story.progress is P.DRAINED


def test_a_restarted_instance_is_waited_for_anew_and_the_drain_is_then_of_the_new_launch():
    story = Story()
    story.look(3)
    assert story.progress is P.DRAINED
    story.launch = 2
    verdict = story.look()
    assert (verdict.state.progress, verdict.state.launch) == (P.WAITING, 2)
    assert "restarted" in verdict.blockers
    story.look()
    assert story.progress is P.EMPTY
    story.look()
    assert story.progress is P.DRAINED


def test_a_launch_that_ends_leaves_drained_as_it_is_and_keeps_a_waiting_drain_waiting():
    story = Story()
    story.look(3)
    story.launch, story.groups, story.engine = None, None, {}
    story.gateways = [Gateway("g1", -100.0, 15.0, LEDGER, 60)]
    assert story.look(5).state.progress is P.DRAINED
    story = Story()
    story.look()
    story.launch, story.groups = None, None
    assert story.blocked_for_ever("launch")


def test_a_dp_group_that_the_new_launch_does_not_have_is_not_drained():
    story = Story(group=1)
    story.launch, story.groups = 2, 1
    assert story.blocked_for_ever("topology")


def test_a_restored_ledger_asks_everybody_again():
    for ledger, head in (("ledger-2", 100), (LEDGER, 49)):
        story = Story()
        story.look(3)
        story.ledger, story.head = ledger, head
        verdict = story.look()
        assert verdict.ask_again and verdict.state.progress is P.WAITING
        story.state = replace(story.state, cordon=Cordon(ledger, head, story.now))
        assert not story.look().ask_again
        assert "acknowledge g1" in story.verdict.blockers
        story.gateways = [Gateway("g1", story.now, 15.0, ledger, head)]
        story.look(3)
        assert story.progress is P.DRAINED


def test_of_a_decode_which_does_not_register_every_rank_that_its_engine_named_must_be_empty():
    story = Story(groups=None)
    story.registers, story.launch = False, None
    story.state = replace(story.state, launch=None)
    story.engine = {}
    assert story.blocked_for_ever("ranks")
    story.engine = {0: 0, 1: 0}
    story.look()
    story.engine = {0: 0}
    story.look(5)
    assert story.progress is P.WAITING
    assert story.verdict.blockers["silent the engine 1"]
    story.engine = {0: 0, 1: 0}
    story.look()
    assert story.progress is P.EMPTY
    story.look()
    assert story.progress is P.DRAINED


def test_of_a_decode_without_an_engine_url_words_about_the_whole_of_it_are_the_proof():
    story = Story(groups=None)
    story.registers, story.launch, story.engine = False, None, None
    story.state = replace(story.state, launch=None)
    assert story.blocked_for_ever("ranks")
    story.others = [Reading("gateway", "g1", 0, 1.0, "", 0)]
    assert story.blocked_for_ever("ranks")
    story.others = [Reading("gateway", "g1", None, 1.0, "", 2)]
    assert story.blocked_for_ever("busy gateway g1 0")
    story.gateways.append(Gateway("g2", story.now, 15.0, LEDGER, 60))
    story.others = [Reading("gateway", "g1", None, 1.0, "", 0)]
    assert story.blocked_for_ever("silent gateway g2 0")
    story.others += [Reading("gateway", "g2", None, 1.0, "", 0), Reading("gateway", "g2", 1, 1.0, "", 1)]
    assert story.blocked_for_ever("busy gateway g2 1")
    story.others[-1] = replace(story.others[-1], open=0)
    story.look(3)
    assert story.progress is P.DRAINED
    # A worker speaks of its own rank alone: whoever speaks of all of it is needed beside.
    story.state = replace(story.state, progress=P.WAITING, memory=Memory())
    old = Reading("gateway", "g1", None, -100.0, "", 0)
    story.others = [Reading("worker", "w0", 0, 1.0, "", 0), old, replace(old, source="g2")]
    assert story.blocked_for_ever("silent gateway g1 1")


@pytest.mark.parametrize(
    ("role", "counts", "held"),
    [
        ("prefill", {"running": 0, "waiting": 0, "bootstrap": 0, "inflight": 0}, 0),
        ("prefill", {"running": 0, "waiting": 0, "bootstrap": 0, "inflight": 1}, 1),
        ("prefill", {"running": 0, "waiting": 0}, None),
        ("prefill", {"running": 0, "waiting": 0, "bootstrap": 0, "inflight": 0, "uncomputed_tokens": 900}, 900),
        ("decode", {"running": 0, "waiting": 0, "bootstrap": 0, "inflight": 0}, None),
        ("decode", {"running": 0, "waiting": 0, "prealloc": 0, "transfer": 0, "retracted": 1}, 1),
        ("seed", {"running": 0, "waiting": 0}, 0),
    ],
)
def test_an_engine_holds_nothing_when_every_queue_of_its_role_is_said_to_be_empty(role, counts, held):
    assert open_requests(role, counts) == held


def test_what_a_drain_remembers_survives_its_row():
    story = Story()
    story.look(2)
    assert Memory.read(story.state.memory.data()) == story.state.memory
