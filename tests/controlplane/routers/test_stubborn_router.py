"""A router that says no, or says yes and does something else: what is written down is what was seen."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from controlplane.commands import intent, router_facts, router_rounds, routers
from controlplane.domain.routers import PENDING_SECONDS
from controlplane.queries import attention, inquiry
from controlplane.queries import routers as queries
from tests.controlplane.routers.fleet import WHO, member, told
from tests.controlplane.routers.real import eventually
from tests.doubles.router import StubbornRouter


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(router_rounds, "GONE_WITHIN_SECONDS", 0.2)
    monkeypatch.setattr(router_rounds, "HERE_WITHIN_SECONDS", 0.2)


@pytest.fixture
def stubborn(fleet) -> Iterator[StubbornRouter]:
    fleet.prefill("a")
    fleet.decode("d")
    with StubbornRouter() as router:
        fleet.serve(router)
        yield router


def test_one_that_it_refuses_does_not_hold_up_the_others(stubborn, fleet):
    a, d = fleet.engines["a"].url, fleet.engines["d"].url
    stubborn.refuses = {a}
    routers.reconcile()
    assert stubborn.urls() == [d] and member("d").present and not member("a").present
    routers.reconcile()
    row = queries.router("r")
    assert row.state == "changing" and row.problem.startswith("a is not in it: the router: it does not do what")
    assert "SECRET" not in repr(row)
    stubborn.refuses = set()
    routers.reconcile()
    assert stubborn.urls() == sorted([a, d]) and queries.router("r").state == "in_step"


def test_one_that_it_swallows_may_come_any_moment_and_is_told_again_after_a_while(stubborn, fleet):
    stubborn.swallows = True
    routers.reconcile()
    assert member("a").present, "it may send to him, as far as anybody knows"
    assert member("a").sentence == "the router was told of it" and queries.router("r").state == "changing"
    told_once = list(stubborn.told)
    routers.reconcile()
    assert stubborn.told == told_once
    # Cordoned meanwhile: until it is certain that he does not come, he may.
    intent.cordon("a", **WHO)
    routers.reconcile()
    assert member("a").present
    later = member("a").changed_at + PENDING_SECONDS + 1
    routers.reconcile(now=later)
    assert not member("a").present and "cordoned" in member("a").sentence
    assert told("router.worker") == [], "who was never seen in it neither came nor went"
    stubborn.swallows = False
    # The other one was told of just now, by the clock that goes on beside the test.
    routers.reconcile(now=time.time() + PENDING_SECONDS + 1)
    assert stubborn.urls() == [fleet.engines["d"].url]


def test_one_that_it_keeps_is_still_in_it_and_said_to_be(stubborn, fleet):
    routers.reconcile()
    stubborn.keeps = True
    intent.cordon("a", **WHO)
    routers.reconcile()
    assert member("a").present and fleet.engines["a"].url in stubborn.urls()
    assert queries.router("r").problem.startswith("a is still in it, although")
    stubborn.keeps = False
    routers.reconcile()
    assert not member("a").present and queries.router("r").problem == ""


def test_an_engine_that_two_instances_claim_is_nobody_s(stubborn, fleet):
    routers.reconcile()
    fleet.prefill("b")
    fleet.set("b", engine_url=fleet.engines["a"].url)
    routers.edit("r", instances=["a", "b", "d"], **WHO)
    eventually(lambda: routers.reconcile() == 0 and stubborn.urls() == [fleet.engines["d"].url])
    assert "in common with another instance" in member("a").sentence


def test_looking_at_many_routers_is_the_same_few_queries(stubborn, fleet, queries_of_reader):
    with StubbornRouter() as other:
        fleet.serve(other, name="s", instances=["a"])
        with queries_of_reader(2):
            assert len(queries.listing()) == 2


def test_one_that_others_put_in_and_that_it_keeps_is_said_to_be_in_it(stubborn, fleet):
    """A drain that took him for absent would be drained while the router sends to him."""
    intent.cordon("a", **WHO)
    a = fleet.engines["a"].url
    stubborn.held["90"] = {"url": a, "worker_type": "prefill", "bootstrap_port": 1}
    stubborn.keeps = True
    routers.reconcile()
    assert a in stubborn.urls() and member("a").present and member("a").worker_id == "90"
    stubborn.keeps = False
    routers.reconcile()
    assert a not in stubborn.urls() and not member("a").present
    assert [event.data["worker"] for event in told("router.worker_removed")] == [a]


def test_while_engines_are_asked_whether_they_are_ready_no_other_round_asks_for_that_router(stubborn, monkeypatch):
    """Rounds begin every second: with engines that hang, each would hold a thread of the worker until none is left."""
    asked, go_on = threading.Semaphore(0), threading.Event()

    async def hangs(*_: object, **__: object) -> str:
        asked.release()
        await asyncio.to_thread(go_on.wait, 30)
        return ""

    monkeypatch.setattr(router_rounds, "why_not_ready", hangs)
    monkeypatch.setattr(router_rounds, "UNREADY_SECONDS", 0.0)
    first = threading.Thread(target=routers.reconcile)
    first.start()
    try:
        assert asked.acquire(timeout=20) and asked.acquire(timeout=20)
        second = threading.Thread(target=routers.reconcile)
        second.start()
        second.join(20)
        assert not second.is_alive() and not asked.acquire(blocking=False)
    finally:
        go_on.set()
        first.join(30)
    assert len(stubborn.urls()) == 2


def test_engines_that_hang_hold_up_those_that_are_ready_for_a_bounded_time_only(stubborn, fleet, monkeypatch):
    async def slow(*_: object, **__: object) -> str:
        await asyncio.sleep(0.3)
        return ""

    monkeypatch.setattr(router_rounds, "why_not_ready", slow)
    monkeypatch.setattr(router_rounds, "WORKERS_AT_ONCE", 1)
    monkeypatch.setattr(router_rounds, "READY_WITHIN_SECONDS", 0.1)
    routers.reconcile()
    (first,) = stubborn.urls()
    other = next(name for name, engine in fleet.engines.items() if engine.url != first)
    assert member(other).sentence == router_rounds.NO_TIME
    routers.reconcile()
    assert len(stubborn.urls()) == 2


def test_whom_a_slow_router_was_not_told_of_in_time_is_not_in_it(stubborn, monkeypatch):
    """It would be taken for absent after a while, and put in after that: also when it was cordoned meanwhile."""
    monkeypatch.setattr(router_rounds, "TOLD_WITHIN_SECONDS", -1.0)
    routers.reconcile()
    assert stubborn.told == [] and not member("a").present and not member("d").present
    monkeypatch.setattr(router_rounds, "TOLD_WITHIN_SECONDS", 4.0)
    routers.reconcile()
    assert len(stubborn.urls()) == 2


def breakers_of(name: str) -> tuple[str, str]:
    answer = next(one for one in inquiry.inquire(name, now=time.time()).answers if one.key == "breaker")
    return answer.verdict, answer.code


NO_BREAKERS = [
    "",
    "node_load1 0.3\n",
    'renamed_worker_breaker{worker_url="URL"} 1\n',
    'smg_worker_cb_state{worker="URL"} 1.2.3\n',
    'smg_worker_cb_state{worker="http://127.0.0.1:1"} 0\n',
]


def test_metrics_that_tell_of_no_breaker_are_not_taken_for_closed_ones(fleet):
    fleet.prefill("a")
    fleet.decode("d")
    with StubbornRouter() as router:
        router.metrics = ""
        fleet.serve(router)
        routers.reconcile()
        for told in NO_BREAKERS:
            router.metrics = told.replace("URL", fleet.engines["a"].url)
            routers.reconcile()
            row = queries.router("r")
            assert row.state == "in_step" and row.problem.startswith(
                "its breakers are not known: its metrics have none"
            )
            assert breakers_of("a") == ("not_observed", "unread")
        now = time.time()
        (concern,) = (one for one in attention.concerns(attention.scene(now=now), now=now) if one.name == "Router r")
        assert concern.what == "is in step, and does not tell how its breakers stand" and concern.why
        router.metrics = "".join(f'smg_worker_cb_state{{worker="{one.url}"}} 0\n' for one in fleet.engines.values())
        routers.reconcile()
        assert queries.router("r").problem == "" and breakers_of("a") == ("yes", "closed")


def test_a_look_counts_as_new_also_after_the_clock_was_set_back():
    """Else the list as it was seen then would prove for an hour that a drained worker is not in it."""
    assert router_facts._latest(None, 100.0, 105.0) == 100.0
    assert router_facts._latest(103.0, 100.0, 105.0) == 103.0, "a slow round makes nothing old"
    assert router_facts._latest(3700.0, 100.0, 105.0) == 100.0
