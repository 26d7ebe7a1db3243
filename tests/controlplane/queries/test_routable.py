"""Who can be sent work, from real tables: the verdict of instances and DP groups, what remains, and its price."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import instances
from controlplane.databases import FACTS, READER
from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.models import Breaker, Gateway, GroupIntent, Instance, Lease, Router, RouterMember
from controlplane.queries import routable
from controlplane.queries.routable import Counts
from tests.controlplane.queries.world import World

DP2_TP2 = Topology(2, 1, 2, 1)
ROUTABLE_QUERIES = 15


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def serving(name: str = "prefill-a") -> World:
    world = World(name)
    world.launch(DP2_TP2, first_port=4000)
    return world


def row(name: str = "prefill-a", **how) -> routable.RoutableRow:
    return routable.instance(name, now=time.time(), **how)


def wish(world: World, intent: str, group: int | None = None) -> None:
    if group is None:
        Instance.objects.using(FACTS).filter(pk=world.row.pk).update(
            intent=intent, intent_actor="anna", intent_reason="disk"
        )
        return
    said = {"intent": intent, "actor": "anna", "reason": "disk", "at": time.time()}
    GroupIntent.objects.using(FACTS).update_or_create(instance_id=world.row.pk, group=group, defaults=said)


def gateway(name: str, *, left: bool = False, silent: float = 0.0) -> None:
    now = time.time()
    Gateway.objects.using(FACTS).create(
        name=name, registered_at=now - 100, seen_at=now - silent, left_at=now if left else None
    )


def breaker(by: str, state: str = "open", group: int = -1, instance: str = "prefill-a", ago: float = 1.0) -> None:
    at = time.time() - ago
    Breaker.objects.using(FACTS).create(
        gateway=by, instance=instance, group=group, state=state, since=at, reported_at=at, reason="5 of 6 failed"
    )


def codes(verdict) -> list[str]:
    return [reason.code for reason in verdict.reasons]


def test_a_serving_instance_is_routable_in_every_group():
    serving()
    found = row()
    assert found.routable and found.launch == 1
    assert codes(found.verdict) == ["complete", "up", "enabled", "no_gateway"]
    assert [(g.group, g.registered, g.size, g.answering, g.verdict.routable) for g in found.groups] == [
        (0, 2, 2, 2, True),
        (1, 2, 2, 2, True),
    ]
    assert found.of(1).routable
    with pytest.raises(Refused, match="prefill-a has no DP group 7"):
        found.of(7)


def test_a_lost_rank_makes_all_of_it_unroutable_and_the_missing_one_is_named():
    world = serving()
    world.refuse(4003)
    found = row()
    assert not found.routable
    assert found.verdict.because == "launch 1 is not complete: 3/4, missing dp1 tp1"
    assert codes(found.verdict)[:2] == ["incomplete", "lost_rank"]
    assert not found.of(0).routable
    assert [g.registered for g in found.groups] == [2, 1]


def test_a_flush_makes_a_complete_instance_unroutable():
    world = serving()
    world.refuse(4000)
    world.put(Slot(0, 0, 0, 0), DP2_TP2, port=4100)
    world.probe(Contact.UP, 4100, 4001, 4002, 4003)
    assert codes(row().verdict)[0] == "flushing"
    world.end_flush()
    assert row().routable


def test_intents_of_groups_and_of_the_whole():
    world = serving()
    wish(world, "cordoned", 0)
    found = row()
    assert found.routable and not found.of(0).routable and found.of(1).routable
    assert found.of(0).because == "DP group 0 of prefill-a is cordoned by anna: disk"
    assert [group.intent for group in found.groups] == ["cordoned", "enabled"]
    wish(world, "draining", 1)
    assert not row().routable and codes(row().verdict)[0] == "groups"
    wish(world, "draining")
    assert row().verdict.because == "prefill-a is draining by anna: disk"
    instances.retire("prefill-a", actor="anna")
    assert codes(row().verdict)[0] == "retired"


def test_breakers_of_gateways_that_are_here_and_of_routers_that_hold_it():
    serving()
    for name in ("g1", "g2"):
        gateway(name)
    gateway("g3", left=True)
    breaker("g1")
    breaker("g3")
    assert row().routable
    assert not row(gateway="g1").routable and row(gateway="g2").routable
    with pytest.raises(Refused, match="no gateway is named g3"):
        row(gateway="g3")
    breaker("g2", group=1)
    assert row().of(0).routable and not row().of(1).routable
    assert row().of(1).because == "the breaker of g1 is open: 5 of 6 failed"
    made = Router.objects.using(FACTS).create(name="r", url="http://r", created_at=1.0, actor="anna")
    RouterMember.objects.using(FACTS).create(router_id=made.pk, instance="prefill-a")
    assert row().of(1).routable
    breaker("router:r", ago=500)
    assert not row().of(1).routable
    old = {reason.sentence: reason.old for reason in row().of(1).reasons if reason.code == "open"}
    assert old["the breaker of router:r is open: 5 of 6 failed"]
    assert not old["the breaker of g1 is open: 5 of 6 failed"]


def test_a_silent_gateway_keeps_its_word_and_it_is_shown_as_old():
    serving()
    gateway("g1", silent=100.0)
    breaker("g1", ago=100.0)
    verdict = row().verdict
    assert not verdict.routable and verdict.reasons[0].old


def test_our_own_restart_makes_nobody_unroutable():
    serving()
    Lease.objects.using(FACTS).update(token=2)
    restarted = row().verdict
    assert restarted.routable
    assert [(r.code, r.old) for r in restarted.reasons[:2]] == [("complete", False), ("unverified", True)]
    Lease.objects.using(FACTS).update(expires_at=time.time() - 600)
    away = row().verdict
    assert away.routable and all(reason.old for reason in away.reasons[:2])


def test_decodes_are_routable_without_registering_and_seeds_never():
    instances.add("d", role="decode", actor="anna")
    instances.add("s", role="seed", actor="anna")
    assert row("d").routable and row("d").groups == ()
    assert row("s").verdict.because == "s is a seed of weights: it takes no requests"
    said = {"intent": "cordoned", "actor": "anna", "reason": "", "at": 1.0}
    pk = Instance.objects.using(FACTS).get(name="d").pk
    GroupIntent.objects.using(FACTS).create(instance_id=pk, group=1, **said)
    # There may be others that nobody told us of.
    assert row("d").routable and not row("d").of(1).routable


def test_what_remains_is_counted_as_if_somebody_were_cordoned():
    serving()
    serving("prefill-b")
    instances.add("d", role="decode", actor="anna")
    assert routable.counts("prefill") == Counts(2, 4, 8)
    assert routable.counts("prefill", without=("prefill-a", 1)) == Counts(2, 3, 6)
    assert routable.counts("prefill", without=("prefill-a", -1)) == Counts(1, 2, 4)
    assert routable.counts("decode") == Counts(1, 1, 0)
    assert (routable.pairs(), routable.pairs(without=("prefill-b", -1)), routable.pairs(without=("d", -1))) == (2, 1, 0)


def test_what_is_weighed_once_for_a_plan_or_without_dp_groups_is_the_same():
    wish(serving("prefill-a"), "cordoned", group=0)
    serving("prefill-b")
    gateway("g")
    breaker("g", instance="prefill-b")
    now = time.time()
    rows = routable.instances(now=now)
    for without in (("prefill-a", -1), ("prefill-a", 1), ("prefill-b", 0), ("ghost", -1)):
        assert routable.both(now=now, without=without) == (rows, routable.instances(now=now, without=without))
    assert [(row.name, row.verdict) for row in routable.wholes(now=now)] == [(row.name, row.verdict) for row in rows]


def test_an_unknown_name_is_refused():
    with pytest.raises(Refused, match="no instance is named ghost"):
        row("ghost")


def test_the_number_of_queries_does_not_grow_with_the_fleet():
    def selects() -> int:
        with CaptureQueriesContext(connections[READER]) as captured:
            routable.instances(now=time.time())
        return sum("SELECT" in query["sql"] for query in captured)

    assert selects() == ROUTABLE_QUERIES
    for number in range(3):
        serving(f"prefill-{number}")
        gateway(f"g{number}")
        breaker(f"g{number}", instance=f"prefill-{number}")
    assert selects() == ROUTABLE_QUERIES
