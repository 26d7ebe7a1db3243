"""Drains from beginning to end, on both databases: cordon, witnesses, late rooms, deadline, restart, force."""

import itertools
import time

import pytest

from controlplane.commands import drains, gateways, instances, intent, watching
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import head
from controlplane.models import Drain, Instance, LedgerHead, Router, RouterMember
from controlplane.queries.drains import told
from controlplane.queries.events import sentence
from tests.controlplane.commands.draining import WHO, Looker, acknowledge, bind, events, join, the_drain
from tests.controlplane.queries.world import World
from tests.doubles.engine import Engine

DP2 = Topology(2, 1, 1, 1)


@pytest.fixture
def engine():
    with Engine(dp=2) as running:
        yield running


@pytest.fixture
def world(on_backend):
    made = World("prefill-a")
    made.launch(DP2, first_port=4000)
    join()
    return made


@pytest.fixture
def asked(world, engine):
    """An instance whose engine is known."""
    instances.edit("prefill-a", engine_url=engine.url, **WHO)
    return world


@pytest.fixture
def look(asked):
    return Looker()


def test_a_drain_waits_for_load_is_proven_by_two_zeros_and_is_of_one_launch(asked, engine, look):
    engine.counts[1].inflight = 2
    done = drains.drain("prefill-a", **WHO)
    assert (done.changed, done.intent, done.sentence) == (True, "draining", "prefill-a is draining")
    look()
    assert the_drain().blockers[0].startswith("gateway g1 has not acknowledged the cordon (revision ")
    acknowledge()
    look()
    waiting = the_drain()
    assert (waiting.progress, waiting.safe_to_delete) == ("waiting", False)
    assert "the engine still has requests on dp1" in waiting.blockers
    assert [(r.dp, r.counts["inflight"]) for r in waiting.readings] == [(0, 0), (1, 2)]
    assert any("the engine on dp1: running 0, waiting 0" in said for said in told(waiting, now=look.now))
    engine.counts[1].inflight = 0
    look()
    assert (the_drain().progress, the_drain().safe_to_delete) == ("empty", False)
    look()
    drained = the_drain()
    assert (drained.progress, drained.safe_to_delete, drained.blockers) == ("drained", True, ())
    assert told(drained, now=look.now)[0].startswith("prefill-a is drained: launch 1 may be deleted")

    # It is deleted, and started again: what was true of the old launch is not true of the new one.
    asked.refuse(4000, 4001)
    look()
    assert (the_drain().progress, the_drain().safe_to_delete) == ("drained", False)
    asked.launch(DP2, first_port=5000)
    assert not the_drain().safe_to_delete
    look()
    again = the_drain()
    assert (again.progress, again.launch, again.safe_to_delete) == ("waiting", 2, False)
    look(3)
    assert (the_drain().progress, the_drain().launch, the_drain().safe_to_delete) == ("drained", 2, True)

    assert [e.kind for e in events("intent.changed", "drain.started", "drain.ended")] == [
        "intent.changed",
        "drain.started",
    ]
    chain = [(e.data["before"], e.data["after"], e.data["launch"]) for e in events("drain.progressed")]
    assert chain[0][0] == "waiting" and chain[-1] == ("empty", "drained", 2)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(chain))
    for event in events("intent.changed", "drain.started", "drain.progressed"):
        assert not sentence(event).startswith(event.kind)


def test_nothing_is_written_while_nothing_changes_and_counts_alone_are_no_event(asked, engine, look):
    engine.counts[0].running = 1
    drains.drain("prefill-a", **WHO)
    acknowledge()
    look(3)
    before, written = head(), Drain.objects.using(FACTS).get().checked_at
    for count in range(2, 8):
        engine.counts[0].running = count
        drains.check(look.now + count / 10)
    assert head() == before
    assert Drain.objects.using(FACTS).get().checked_at == written
    look(4)
    assert head() == before
    assert the_drain().readings[0].counts["running"] == 7
    assert the_drain().checked_at > written


def test_a_silent_engine_one_that_does_not_tell_and_one_that_wants_another_key_block(asked, engine, look):
    drains.drain("prefill-a", **WHO)
    acknowledge()
    engine.sections = set()
    look(3)
    assert "the engine answers, but not how much is open on dp0, dp1" in the_drain().blockers
    engine.sections, engine.key = {"disagg"}, "secret"
    look(3)
    blocked = the_drain()
    assert blocked.blockers == ("the engine does not say how much is open on dp0, dp1: no answer that is fresh",)
    assert blocked.engine_problem == "the engine does not accept the API key that is kept for it"
    instances.edit("prefill-a", engine_key="secret", **WHO)
    assert "secret" not in Instance.objects.using(FACTS).get(name="prefill-a").engine_key
    acknowledge()
    look()
    assert the_drain().progress == "empty"
    engine.stop()
    look(10)
    assert the_drain().progress == "waiting"
    engine.start()
    look(2)
    assert the_drain().progress == "drained"


def test_an_engine_whose_clock_is_wrong_is_believed_and_a_snapshot_from_before_is_not(asked, engine, look):
    engine.clock = -86_400.0
    drains.drain("prefill-a", **WHO)
    acknowledge()
    engine.freeze()
    look(5)
    assert the_drain().progress == "empty"
    assert "must say twice in a row that nothing is open" in the_drain().blockers[0]
    engine.thaw()
    look(2)
    assert the_drain().progress == "drained"


def test_rooms_from_before_and_rooms_that_come_late_block_until_they_expire(asked, engine, look):
    bind(1, 0, until=look.now + 6)
    bind(2, 0, until=look.now + 1)
    drains.drain("prefill-a", **WHO)
    acknowledge()
    look()
    assert the_drain().blockers == (
        "rooms that were bound to the instance before are still live",
        "the engine must say twice in a row that nothing is open on dp0, dp1, after everybody has stopped admitting",
    )
    look(2)
    assert the_drain().blockers == ("rooms that were bound to the instance before are still live",)
    bind(2**62, 1, until=look.now + 8)
    bind(5, 1, until=look.now + 9)
    look()
    (late,) = [said for said in the_drain().blockers if "late admission" in said]
    assert late.startswith(f"room {2**62} was bound to dp1 after the drain began (late admission); whoever sent it")
    look(4)
    assert the_drain().progress == "waiting"
    look(6)
    assert the_drain().progress == "drained"
    bind(6, 1, until=look.now + 8)
    look()
    taken_back = the_drain()
    assert (taken_back.progress, taken_back.safe_to_delete) == ("waiting", False)


def test_a_dp_group_is_drained_alone(asked, engine, look):
    engine.counts[0].running = 5
    bind(1, 0, until=look.now + 60)
    done = drains.drain("prefill-a", group=1, **WHO)
    assert done.sentence == "dp1 of prefill-a is draining"
    acknowledge()
    bind(2, 0, until=look.now + 60)
    look(3)
    drained = the_drain(group=1)
    assert (drained.progress, drained.safe_to_delete, drained.group) == ("drained", True, 1)
    assert Instance.objects.using(FACTS).get(name="prefill-a").intent == "enabled"
    bind(3, 1, until=look.now + 60)
    look()
    assert the_drain(group=1).progress == "waiting"
    assert "room 3 was bound to dp1" in the_drain(group=1).blockers[0]
    cancelled = drains.cancel("prefill-a", group=1, **WHO)
    assert cancelled.sentence == "the drain of dp1 of prefill-a was cancelled: it is enabled"
    assert the_drain(group=1).progress == "cancelled"


def test_without_anybody_who_selects_it_is_never_drained_and_force_has_its_own_name(asked, engine, look):
    gateways.leave("g1")
    drains.drain("prefill-a", **WHO)
    look(10)
    stuck = the_drain()
    assert stuck.progress == "empty"
    assert stuck.blockers[0].startswith(
        "cannot stop admission: no gateway or router that chooses workers is known here"
    )
    forced = drains.force("prefill-a", **WHO)
    assert forced.changed and forced.intent == "draining"
    assert (the_drain().progress, the_drain().safe_to_delete) == ("forced", False)
    assert events("drain.ended")[-1].data["result"] == "forced"
    assert not events("drain.ended")[-1].data["safe_to_delete"]
    look(3)
    assert the_drain().progress == "forced"
    # It is out of use still; whoever wants proof begins again.
    again = drains.drain("prefill-a", **WHO)
    assert again.changed and again.sentence == "prefill-a is draining again" and again.drain != forced.drain
    with pytest.raises(Refused, match="no drain under way"):
        drains.force("prefill-a", group=1, **WHO)


def test_what_a_gateway_left_open_is_open_until_the_engine_says_otherwise(asked, engine, look):
    """Where gateways are the only witnesses, the last word of one that left is that something is open."""
    instances.edit("prefill-a", engine_url="", **WHO)
    join("g2")
    drains.drain("prefill-a", **WHO)

    def report(name: str, count: int) -> None:
        rooms = [{"instance": "prefill-a", "dp": dp, "open_rooms": count, "age_seconds": 0} for dp in (0, 1)]
        gateways.report_open_rooms("gateway", name, rooms, look.now)

    acknowledge("g1")
    acknowledge("g2")
    report("g2", 3)
    gateways.leave("g2")
    for _ in range(4):
        look()
        report("g1", 0)
    assert the_drain().progress != "drained"
    assert any("former gateway g2" in said for said in the_drain().blockers)
    instances.edit("prefill-a", engine_url=engine.url, **WHO)
    look(4)
    assert the_drain().progress == "drained"


def test_past_its_deadline_it_is_overdue_and_can_still_be_drained(asked, engine, look):
    engine.counts[0].running = 1
    drains.drain("prefill-a", deadline_at=time.time() + 5, **WHO)
    acknowledge()
    look(3)
    assert the_drain().progress == "waiting"
    look(4)
    assert the_drain().progress == "overdue"
    engine.counts[0].running = 0
    look(2)
    assert the_drain().progress == "drained"
    with pytest.raises(Refused, match="the deadline must lie ahead"):
        drains.drain("prefill-a", group=1, deadline_at=time.time() - 1, **WHO)


def test_a_gateway_that_joins_or_falls_silent_blocks_until_it_acknowledges(asked, engine, look):
    engine.counts[0].running = 1
    drains.drain("prefill-a", **WHO)
    acknowledge()
    look(2)
    join("g2", lease=5.0)
    engine.counts[0].running = 0
    look(2)
    assert the_drain().progress == "empty"
    assert any(said.startswith("gateway g2 has not acknowledged") for said in the_drain().blockers)
    look(4)
    assert "gateway g2 is silent for longer than its lease of 5 s: it may still admit" in the_drain().blockers
    gateways.leave("g2")
    look(3)
    assert the_drain().progress == "drained"


def test_a_router_must_be_seen_to_have_let_go(asked, engine, look):
    router = Router.objects.using(FACTS).create(name="r", url="http://r:1", created_at=1.0, actor="anna")
    member = RouterMember.objects.using(FACTS).create(router_id=router.pk, instance="prefill-a", present=True)
    drains.drain("prefill-a", **WHO)
    acknowledge()

    def seen(*, present: bool) -> None:
        Router.objects.using(FACTS).filter(pk=router.pk).update(state="in_step", checked_at=look.now)
        RouterMember.objects.using(FACTS).filter(pk=member.pk).update(present=present)

    seen(present=True)
    look(2)
    assert "router r still has it among its workers" in the_drain().blockers
    seen(present=False)
    look(3)
    assert the_drain().progress == "drained"


def test_workers_and_gateways_can_be_the_witness_where_no_engine_is_known(world):
    look = Looker()

    def report(kind: str, source: str, dp: int, count: int) -> None:
        item = {"instance": "prefill-a", "dp": dp, "open_rooms": count, "age_seconds": 0.0}
        gateways.report_open_rooms(kind, source, [item], look.now)

    drains.drain("prefill-a", **WHO)
    acknowledge()
    look(2)
    assert "gateway g1 does not say how much is open on dp0, dp1: no answer that is fresh" in the_drain().blockers
    for count in (2, 0, 0):
        for dp in (0, 1):
            report("gateway", "g1", dp, count)
        look()
        assert the_drain().progress == ("waiting" if count else the_drain().progress)
    assert the_drain().progress == "drained"
    report("worker", "w7", 1, 1)
    look()
    assert (the_drain().progress, the_drain().blockers[0]) == ("waiting", "worker w7 still has requests on dp1")
    for _ in range(2):
        for dp in (0, 1):
            report("worker", "w7", dp, 0)
        look()
    assert the_drain().progress == "drained"


def test_after_a_restored_backup_everybody_is_asked_again(asked, engine, look):
    drains.drain("prefill-a", **WHO)
    acknowledge()
    look(3)
    assert the_drain().progress == "drained"
    LedgerHead.objects.using(FACTS).update(ledger_id="restored")
    look()
    asked_anew = the_drain()
    assert asked_anew.progress == "waiting"
    assert any("restored backup" in said for said in asked_anew.blockers)
    assert asked_anew.cordon_revision == head().revision
    look()
    assert any(said.startswith("gateway g1 has not acknowledged") for said in the_drain().blockers)
    acknowledge()
    look(3)
    assert the_drain().progress == "drained"


def test_an_instance_that_is_enabled_again_or_retired_ends_its_drain(asked, engine, look):
    drains.drain("prefill-a", **WHO)
    done = intent.uncordon("prefill-a", **WHO)
    assert done.sentence == "prefill-a is enabled again; its drain was cancelled"
    assert (the_drain().progress, the_drain().ended) == ("cancelled", True)
    drains.drain("prefill-a", **WHO)
    assert drains.cancel("prefill-a", to="cordoned", **WHO).intent == "cordoned"
    drains.drain("prefill-a", **WHO)
    drains.drain("prefill-a", group=1, **WHO)
    retired = instances.retire("prefill-a", **WHO)
    assert "still open: drain " in retired.sentence and "launch 1 was registered and not drained" in retired.sentence
    assert not Drain.objects.using(FACTS).filter(ended_at=None).exists()
    assert [e.data["result"] for e in events("drain.ended")] == ["cancelled"] * 4


def test_what_was_drained_and_then_retired_may_still_be_deleted_until_it_is_added_again(asked, engine, look):
    drains.drain("prefill-a", **WHO)
    acknowledge()
    look(3)
    assert "still open" not in instances.retire("prefill-a", **WHO).sentence
    ended = events("drain.ended")[-1].data
    assert (ended["result"], ended["safe_to_delete"]) == ("drained", True)
    assert the_drain().safe_to_delete
    instances.add("prefill-a", **WHO)
    assert not the_drain().safe_to_delete
    # Retired once more, this time without a drain: what was proven before it served again proves nothing.
    instances.retire("prefill-a", **WHO)
    assert not the_drain().safe_to_delete


def test_a_gateway_that_starts_anew_between_two_looks_begins_the_proof_anew(asked, engine, look):
    drains.drain("prefill-a", **WHO)
    acknowledge()
    look(2)
    assert the_drain().progress == "empty"
    # Before it had read the ledger it may have admitted something: the zero of before is from before.
    gateways.join("g1", "", 600.0, look.now + 0.5)
    acknowledge(now=look.now + 0.6)
    look(2)
    assert the_drain().progress == "empty"
    look()
    assert the_drain().progress == "drained"


def test_a_look_that_is_overtaken_by_a_later_one_counts_no_more(asked, engine, look, monkeypatch):
    drains.drain("prefill-a", **WHO)
    acknowledge()
    look()
    ask = watching._ask

    def slow(clock):
        loads = ask(clock)
        monkeypatch.setattr(watching, "_ask", ask)
        engine.counts[0].running = 1
        drains.check(look.now + 3.0)
        engine.counts[0].running = 0
        return loads

    monkeypatch.setattr(watching, "_ask", slow)
    drains.check(look.now + 1.0)
    assert the_drain().progress == "waiting"
    drains.check(look.now + 4.0)
    assert the_drain().progress == "empty", "one zero after work was seen is not two in a row"
