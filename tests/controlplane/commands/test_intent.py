"""Cordon and uncordon, of instances and DP groups; two operators at once, in threads and in processes."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from controlplane.commands import drains, instances, intent
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import head
from controlplane.models import Drain, GroupIntent, Instance
from tests.controlplane.commands.draining import WHO, events
from tests.controlplane.queries.world import World


@pytest.fixture
def world(on_backend):
    made = World("prefill-a")
    made.launch(Topology(2, 1, 1, 1), first_port=4000)
    return made


def stored(name: str = "prefill-a") -> Instance:
    return Instance.objects.using(FACTS).get(name=name)


def groups() -> dict[int, str]:
    return dict(GroupIntent.objects.using(FACTS).values_list("group", "intent"))


def test_an_instance_is_cordoned_once_and_enabled_again_with_who_and_why(world):
    done = intent.cordon("prefill-a", **WHO)
    assert (done.changed, done.intent, done.version) == (True, "cordoned", 2)
    assert (stored().intent, stored().intent_actor, stored().intent_reason) == ("cordoned", "anna", "a test")
    assert abs(stored().intent_at - time.time()) < 60
    before = head()
    again = intent.cordon("prefill-a", **WHO)
    assert (again.changed, again.sentence) == (False, "prefill-a is cordoned already; nothing was changed")
    assert head() == before
    assert intent.uncordon("prefill-a", **WHO).sentence == "prefill-a is enabled again"
    assert not intent.uncordon("prefill-a", **WHO).changed
    said = [(e.data["before"], e.data["after"], e.data["version"], e.data["dp"]) for e in events("intent.changed")]
    assert said == [("enabled", "cordoned", 2, None), ("cordoned", "enabled", 3, None)]


def test_a_dp_group_has_an_intent_of_its_own_and_counts_the_same_version(world):
    assert intent.cordon("prefill-a", group=1, **WHO).sentence == (
        "dp1 of prefill-a is cordoned: the gateways and routers known here send nothing new to it"
    )
    assert (groups(), stored().intent, stored().version) == ({1: "cordoned"}, "enabled", 2)
    intent.cordon("prefill-a", **WHO)
    whole = intent.uncordon("prefill-a", **WHO)
    assert whole.sentence == "prefill-a is enabled again; dp1 stays cordoned"
    intent.cordon("prefill-a", **WHO)
    one = intent.uncordon("prefill-a", group=1, **WHO)
    assert one.sentence == "dp1 of prefill-a is enabled again; the instance as a whole is cordoned all the same"
    assert (groups(), stored().version) == ({}, 6)
    assert events("intent.changed")[-1].data["dp"] == 1


REFUSALS = [
    (lambda: intent.cordon("ghost", **WHO), "no instance is named ghost"),
    (lambda: intent.cordon("prefill-a", group=2, **WHO), "dp2 does not exist in prefill-a: it has 2 DP groups"),
    (lambda: intent.cordon("prefill-a", group=-7, **WHO), "a DP group is between 0 and 4095"),
    (lambda: drains.force("prefill-a", **WHO), "prefill-a has no drain under way"),
    (lambda: drains.cancel("prefill-a", to="retired", **WHO), "cancelled to enabled or to cordoned"),
    (lambda: drains.drain("prefill-a", min_ready=-1, **WHO), "min_ready is a number of instances"),
    (lambda: intent.cordon("prefill-a", actor=" "), "an actor is needed"),
    (lambda: intent.cordon("empty", group=0, **WHO), "its DP groups are not known; name the whole instance"),
    (lambda: intent.uncordon("gone", **WHO), "gone is retired; add it again first"),
    (lambda: drains.drain("gone", **WHO), "gone is retired; add it again first"),
]


def test_what_cannot_be_is_refused_with_a_sentence_and_nothing_is_stored(world):
    instances.add("empty", **WHO)
    instances.add("gone", **WHO)
    instances.retire("gone", **WHO)
    before = head()
    for order, sentence in REFUSALS:
        with pytest.raises(Refused) as refusal:
            order()
        assert sentence in refusal.value.sentence
    assert head() == before
    assert not Drain.objects.using(FACTS).exists()


def test_of_a_decode_whose_groups_nobody_registers_any_group_may_be_named(world):
    instances.add("decode-a", role="decode", **WHO)
    assert intent.cordon("decode-a", group=3, **WHO).changed


def at_once(*orders: Callable[[], object]) -> list[object]:
    """What each order came to when all are given at the same moment, from threads with connections of their own."""
    gate = threading.Barrier(len(orders))

    def give(order: Callable[[], object]) -> object:
        try:
            gate.wait(30)
            return order()
        except Refused as refused:
            return refused
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(orders)) as pool:
        return list(pool.map(give, orders))


def test_of_two_operators_who_saw_the_same_one_wins_and_the_other_is_told_the_difference(world):
    for _ in range(5):
        version = stored().version
        found = at_once(
            lambda seen=version: drains.drain("prefill-a", actor="anna", reason="new driver", expected=seen),
            lambda seen=version: intent.cordon("prefill-a", actor="ben", reason="slow disk", expected=seen),
        )
        (won,) = [each for each in found if isinstance(each, intent.Changed)]
        (lost,) = [each for each in found if isinstance(each, intent.Stale)]
        winner = ("anna", "new driver") if won.drain else ("ben", "slow disk")
        assert lost.difference["version"] == {"expected": version, "now": version + 1}
        assert lost.difference["intent"] == {"expected": "enabled", "now": won.intent}
        assert (lost.difference["changed_by"]["now"], lost.difference["reason"]["now"]) == winner
        assert (
            f"changed by {winner[0]} meanwhile" in lost.sentence and f"intent enabled → {won.intent}" in lost.sentence
        )
        assert stored().intent == won.intent
        intent.uncordon("prefill-a", **WHO)


def test_many_who_drain_at_once_begin_one_drain(world):
    found = at_once(*[lambda n=n: drains.drain("prefill-a", actor=f"operator-{n}") for n in range(6)])
    assert sum(each.changed for each in found) == 1
    assert len({each.drain for each in found}) == 1
    assert Drain.objects.using(FACTS).filter(ended_at=None).count() == 1
    assert len(events("drain.started")) == 1 and stored().version == 2


def test_drain_and_uncordon_at_once_never_leave_a_drain_without_its_intent(world):
    for _ in range(5):
        at_once(
            lambda: drains.drain("prefill-a", **WHO),
            lambda: intent.uncordon("prefill-a", **WHO),
            lambda: drains.cancel("prefill-a", **WHO),
        )
        draining = stored().intent == "draining"
        assert draining == Drain.objects.using(FACTS).filter(ended_at=None).exists()
        intent.uncordon("prefill-a", **WHO)


def test_a_budget_refuses_and_two_who_take_the_last_two_at_once_do_not_both_succeed(world):
    World("prefill-b").launch(Topology(1, 1, 1, 1), first_port=5000)
    with pytest.raises(Refused) as refusal:
        drains.drain("prefill-a", min_ready=2, **WHO)
    assert refusal.value.code == "budget"
    assert refusal.value.sentence == (
        "prefill-a is not drained: 1 routable prefill instances would remain, and 2 are wanted"
    )
    for _ in range(4):
        found = at_once(
            lambda: drains.drain("prefill-a", min_ready=1, **WHO), lambda: drains.drain("prefill-b", min_ready=1, **WHO)
        )
        assert sum(isinstance(each, intent.Changed) for each in found) == 1, found
        for name in ("prefill-a", "prefill-b"):
            intent.uncordon(name, **WHO)


def test_the_budget_counts_a_dp_group_only_when_it_is_the_last_of_its_instance(world):
    assert drains.drain("prefill-a", group=0, min_ready=1, **WHO).changed
    with pytest.raises(Refused, match="0 routable prefill instances would remain"):
        drains.drain("prefill-a", group=1, min_ready=1, **WHO)
