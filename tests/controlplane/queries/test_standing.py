"""What operators want, how drains stand and which breakers are open: in rows, and in the story of an instance."""

import doctest
import time
from dataclasses import replace

import pytest

from controlplane.commands import drains, intent
from controlplane.commands.gateways import join, leave, report_breakers
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.models import Breaker, Drain, Gateway
from controlplane.queries import fleet, telling_standing
from controlplane.queries.explain import explain_instance
from controlplane.queries.rows import InstanceRow
from controlplane.queries.standing import OpenDrainRow
from tests.controlplane.queries.world import World

DP2 = Topology(2, 1, 1, 1)


def row(name: str = "prefill-a") -> InstanceRow:
    return fleet.instance(name, now=time.time())[0]


def story(now: float | None = None) -> list[str]:
    return explain_instance("prefill-a", now=time.time() if now is None else now)


def serving() -> World:
    world = World()
    world.launch(DP2, first_port=4000)
    return world


def test_examples_hold():
    assert doctest.testmod(telling_standing).failed == 0


def test_an_intent_is_told_with_who_and_why_right_after_the_verdict(on_backend):
    serving()
    intent.cordon("prefill-a", actor="anna", reason="kernel update")
    found = row()
    assert (found.intent, found.intent_actor, found.intent_reason, found.state) == (
        "cordoned",
        "anna",
        "kernel update",
        "cordoned",
    )
    assert found.version == 2 and found.intent_at is not None
    said = story(found.intent_at + 200)
    assert said[0].startswith("prefill-a is serving")
    assert (
        "It has been cordoned for 3 min, by anna: kernel update; look-ups are still answered for the rooms in flight."
        in said
    )


def test_a_group_has_its_own_intent_unless_the_whole_instance_has_one(on_backend):
    serving()
    intent.cordon("prefill-a", group=1, actor="bob", reason="bad HBM")
    found = row()
    assert [(g.group, g.intent, g.actor, g.reason) for g in found.groups] == [(1, "cordoned", "bob", "bad HBM")]
    assert [found.intent_of(group) for group in (None, 0, 1)] == ["enabled", "enabled", "cordoned"]
    assert any(s.startswith("DP group 1 has been cordoned for") and s.endswith(", by bob: bad HBM.") for s in story())
    intent.cordon("prefill-a", actor="bob")
    assert row().intent_of(0) == "cordoned"
    assert row("prefill-a").version == 3


def test_a_drain_tells_what_it_waits_for_until_it_is_done(on_backend):
    serving()
    drains.drain("prefill-a", actor="anna", deadline_at=time.time() + 600)
    found = row()
    drain = found.drain_of(None)
    assert (drain.progress, drain.launch, drain.actor, drain.what) == ("waiting", 1, "anna", "the instance")
    assert found.drain_of(0) is None
    (said,) = [s for s in story() if s.startswith("Drain")]
    assert "is waiting, begun 0.0 s ago" in said or "is waiting, begun" in said
    assert "due in 9 min" in said and said.endswith("nobody has looked at it yet.")
    Drain.objects.using(FACTS).update(
        blockers='["the engine does not answer","g1 has not acknowledged"]', checked_at=time.time()
    )
    told = story()
    place = next(n for n, s in enumerate(told) if s.startswith("Drain"))
    assert "(looked at " in told[place]
    assert told[place + 1 : place + 3] == [
        "It waits: the engine does not answer.",
        "It waits: g1 has not acknowledged.",
    ]
    Drain.objects.using(FACTS).update(progress="drained", blockers="[]")
    assert f"Drain {drain.id} of the instance is done: launch 1 is safe to delete." in story()
    Drain.objects.using(FACTS).update(launch=7)
    assert (
        f"Drain {drain.id} of the instance was done for launch 7, which is not the current one: it proves nothing of that."
        in story()
    )


def test_a_forced_end_is_never_called_done(on_backend):
    serving()
    drains.drain("prefill-a", actor="anna")
    drains.force("prefill-a", actor="anna")
    assert "No drain of the instance is under way: it was ended by force, so it may still have had work." in story()


def test_an_overdue_drain_says_by_how_much():
    drain = OpenDrainRow(5, 1, 1, "overdue", "anna", "", 100.0, 400.0, 0, ("x",) * 9, 500.0, None, 3)
    instance = InstanceRow(1, "p", "prefill", "enabled", None, None, 0.0, None, drains=(drain,))
    told = telling_standing.told(instance, now=640.0)
    assert told[0] == "Drain 5 of DP group 1 is overdue, begun 9 min ago, 4 min overdue (looked at 2 min ago)."
    assert told[1:7] == ["It waits: x."] * 6
    assert told[7:] == ["It waits for 3 more things; --json names them all."]
    endless = replace(instance, drains=(replace(drain, deadline_at=None),))
    assert "min overdue" not in telling_standing.told(endless, now=640.0)[0]


def test_breakers_are_told_while_their_gateway_is_here(on_backend):
    serving()
    join("g1")
    report_breakers("g1", [{"instance": "prefill-a", "state": "open", "reason": "5 of 6 failed"}])
    report_breakers("g1", [{"instance": "prefill-a", "dp": 1, "state": "half_open"}])
    found = row()
    assert [(b.gateway, b.group, b.state) for b in found.open_breakers] == [
        ("g1", None, "open"),
        ("g1", 1, "half_open"),
    ]
    said = story()
    assert any(s.startswith("The breaker of g1 has been open for") and s.endswith(": 5 of 6 failed.") for s in said)
    assert any(s.startswith("The breaker of g1 has been half open for DP group 1 for") for s in said)
    Gateway.objects.using(FACTS).update(seen_at=time.time() - 500)
    Breaker.objects.using(FACTS).update(reported_at=time.time() - 600)
    assert sum(s.endswith("(g1 was last heard from 8 min ago).") for s in story()) == 2
    leave("g1")
    assert row().breakers == ()


@pytest.mark.parametrize("intent_of", ["cordoned", "draining"])
def test_an_intent_without_an_author_is_an_operator_s(intent_of):
    instance = InstanceRow(1, "p", "prefill", intent_of, None, None, 0.0, None)
    assert telling_standing.told(instance, now=1.0)[0].startswith(f"It has been {intent_of}, by an operator;")
