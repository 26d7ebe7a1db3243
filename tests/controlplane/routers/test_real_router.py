"""The real sglang-router, kept in step: what is in it follows what operators want and what answers."""

import threading
import time

import pytest
from django.db import connections

from controlplane.commands import intent, routers
from controlplane.queries import routers as queries
from tests.controlplane.routers.fleet import WHO, member, told
from tests.controlplane.routers.real import eventually
from tests.doubles.engine import Engine


def settle(until, *, within: float = 30) -> None:
    """Rounds as the clock makes them, until it is so."""

    def once() -> bool:
        routers.reconcile()
        return bool(until())

    eventually(once, within=within)


@pytest.fixture
def pair(fleet, router):
    """Two prefills and a decode, all of them in the router."""
    fleet.prefill("a")
    fleet.prefill("b")
    fleet.decode("d")
    fleet.serve(router)
    assert routers.reconcile() == 3
    assert router.urls() == sorted(engine.url for engine in fleet.engines.values())
    return router


def test_what_serves_is_put_in_with_its_role_and_bootstrap_port_and_traffic_follows(pair, fleet):
    held = {worker["url"]: (worker["worker_type"], worker.get("bootstrap_port")) for worker in pair.workers()}
    engines = fleet.engines
    assert held[engines["a"].url] == ("prefill", 18_001) and held[engines["b"].url] == ("prefill", 18_002)
    assert held[engines["d"].url] == ("decode", None)
    assert pair.generate() == 200
    assert routers.reconcile() == 0, "a second round has nothing to do"
    row = queries.router("r")
    assert row.state == "in_step" and row.problem == "" and all(m.present for m in row.members)
    added = told("router.worker_added")
    assert {event.instance for event in added} == {"a", "b", "d"} and added[0].data["router"] == "r"


def test_a_cordon_takes_the_worker_out_within_two_seconds_and_it_comes_back_once(pair, fleet):
    a = fleet.engines["a"].url
    before = told()[-1].revision
    begun = time.monotonic()
    intent.cordon("a", **WHO)
    routers.reconcile()
    took = time.monotonic() - begun
    # One command, one round, and the absence in the router's own list: 0.1 s on an idle machine. The rest is margin.
    assert a not in pair.urls() and took < 2.0, took
    assert not member("a").present and "cordoned" in member("a").sentence
    asked = fleet.engines["a"].count("/generate")
    assert {pair.generate() for _ in range(6)} == {200}
    assert fleet.engines["a"].count("/generate") == asked

    intent.uncordon("a", **WHO)
    settle(lambda: a in pair.urls())
    for _ in range(3):
        routers.reconcile()
    assert pair.urls().count(a) == 1 and len(pair.workers()) == 3
    kinds = [(event.kind, event.instance) for event in told("router.", since=before)]
    assert kinds == [("router.worker_removed", "a"), ("router.worker_added", "a")]


def test_two_prefills_share_alike_also_after_ten_cordons(pair, fleet):
    def shares() -> list[int]:
        before = [fleet.engines[name].served["/generate"] for name in "ab"]
        assert {pair.generate() for _ in range(60)} == {200}
        return [fleet.engines[name].served["/generate"] - old for name, old in zip("ab", before, strict=True)]

    assert shares() == [30, 30]
    for _ in range(10):
        intent.cordon("a", **WHO)
        routers.reconcile()
        assert fleet.engines["a"].url not in pair.urls()
        intent.uncordon("a", **WHO)
        settle(lambda: fleet.engines["a"].url in pair.urls())
    assert shares() == [30, 30]


def test_a_restarted_router_is_filled_again(pair, fleet):
    intent.cordon("b", **WHO)
    routers.reconcile()
    pair.restart()
    assert pair.workers() == []
    wanted = sorted([fleet.engines["a"].url, fleet.engines["d"].url])
    settle(lambda: pair.urls() == wanted)
    assert queries.router("r").restarts == 1
    (restarted,) = told("router.restarted")
    later = [(event.kind, event.instance) for event in told("router.", since=restarted.revision)]
    removed = [("router.worker_removed", "a"), ("router.worker_removed", "d")]
    assert sorted(later) == sorted([*removed, ("router.worker_added", "a"), ("router.worker_added", "d")])


def test_a_router_that_is_away_is_said_to_be_so_and_keeps_nobody_else_waiting(pair, fleet, start_router):
    other = start_router()
    fleet.serve(other, name="other", instances=["a", "d"])
    pair.kill()
    settle(lambda: len(other.workers()) == 2)
    row = queries.router("r")
    assert row.state == "away" and "no usable answer" in row.problem
    # What it held when it was last seen is kept: it may go on with it.
    assert all(m.present for m in row.members)
    pair.start()
    settle(lambda: len(pair.workers()) == 3)
    assert queries.router("r").state == "in_step"


def test_an_engine_that_does_not_answer_is_not_put_in_until_it_does(fleet, router):
    engine: Engine = fleet.prefill("a")
    fleet.decode("d")
    engine.health = 503
    fleet.serve(router)
    routers.reconcile()
    assert router.urls() == [fleet.engines["d"].url]
    assert member("a").sentence == "the engine's /health does not answer 200"
    engine.stop()
    # Whoever was not ready is left alone for a moment.
    settle(lambda: "no usable answer came from" in member("a").sentence)
    settle(lambda: "a is not in it: the engine: no usable answer" in queries.router("r").problem)
    assert queries.router("r").state == "changing"
    engine.health = 200
    engine.start()
    settle(lambda: engine.url in router.urls())
    settle(lambda: queries.router("r").state == "in_step")


def test_a_worker_that_nobody_manages_is_left_alone(fleet, router):
    fleet.prefill("a")
    with Engine("decode") as strange:
        router.post(url=strange.url, worker_type="decode")
        eventually(lambda: strange.url in router.urls())
        fleet.serve(router)
        settle(lambda: fleet.engines["a"].url in router.urls())
        intent.cordon("a", **WHO)
        settle(lambda: fleet.engines["a"].url not in router.urls())
        for _ in range(3):
            routers.reconcile()
        assert router.urls() == [strange.url]


def test_a_worker_that_somebody_put_in_already_is_taken_over_and_not_put_in_twice(fleet, router):
    engine = fleet.prefill("a")
    router.post(url=engine.url, worker_type="prefill", bootstrap_port=18_001)
    eventually(lambda: router.urls() == [engine.url])
    fleet.serve(router)
    routers.reconcile()
    assert router.urls() == [engine.url] and member("a").present
    assert told("router.worker_added")[0].data["why"] == "the router held it already"


def test_a_cordoned_worker_that_somebody_put_in_is_taken_out(fleet, router):
    engine = fleet.prefill("a")
    intent.cordon("a", **WHO)
    router.post(url=engine.url, worker_type="prefill", bootstrap_port=18_001)
    eventually(lambda: router.urls() == [engine.url])
    fleet.serve(router)
    routers.reconcile()
    assert router.urls() == [] and not member("a").present
    assert [(event.kind, event.instance) for event in told("router.worker")] == [("router.worker_removed", "a")]


@pytest.mark.parametrize("change", [{"own_port": 18_099}, {"role": "decode", "own_port": None}, {"engine_url": ""}])
def test_what_changes_is_taken_out_before_it_is_put_in_again(fleet, router, change):
    engine = fleet.prefill("a")
    fleet.serve(router)
    routers.reconcile()
    (before,) = router.workers()
    with Engine("prefill") as moved:
        if "engine_url" in change:
            change = {"engine_url": moved.url}
        elif "role" in change:
            engine.role = "decode"
        fleet.set("a", **change)
        settle(lambda: [w["id"] for w in router.workers()] not in ([], [before["id"]]))
        (after,) = router.workers()
        assert after["url"] == change.get("engine_url", engine.url)
        assert after["worker_type"] == change.get("role", "prefill")
        assert after.get("bootstrap_port") == change.get("own_port", 18_001)
        kinds = [event.kind for event in told("router.worker")]
        assert kinds == ["router.worker_added", "router.worker_removed", "router.worker_added"]


def test_an_instance_that_is_taken_off_the_list_is_taken_out_of_the_router(pair, fleet):
    routers.edit("r", instances=["b", "d"], **WHO)
    assert "a" in [m.instance for m in queries.router("r").members], "kept in mind until it is gone"
    routers.reconcile()
    assert fleet.engines["a"].url not in pair.urls()
    assert [m.instance for m in queries.router("r").members] == ["b", "d"]
    routers.remove("r", **WHO)
    routers.reconcile()
    assert len(pair.workers()) == 2, "a router that is let go of keeps what it has"


def test_rounds_that_run_at_once_put_everybody_in_once(fleet, router):
    for name in ("a", "b", "c"):
        fleet.prefill(name)
    fleet.decode("d")
    fleet.serve(router)

    def rounds() -> None:
        for _ in range(3):
            routers.reconcile()
        connections.close_all()

    for _ in range(2):
        threads = [threading.Thread(target=rounds) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        settle(lambda: len(router.workers()) == 4)
        assert len(set(router.urls())) == 4
        intent.cordon("a", **WHO)
        settle(lambda: len(router.workers()) == 3)
        intent.uncordon("a", **WHO)
    settle(lambda: len(router.workers()) == 4)
    changes = [(event.kind, event.instance) for event in told("router.worker") if event.instance == "a"]
    assert changes == [("router.worker_added", "a"), ("router.worker_removed", "a")] * 2 + [
        ("router.worker_added", "a")
    ]


def test_a_cordon_between_the_look_and_the_putting_in_wins(fleet, router):
    """The engine is slow to answer the probe; meanwhile an operator cordons it."""
    engine = fleet.prefill("a")
    engine.health_seconds = 1.0
    fleet.serve(router)
    at_work = threading.Thread(target=lambda: (routers.reconcile(), connections.close_all()))
    at_work.start()
    eventually(lambda: engine.count("/health") > 0)
    intent.cordon("a", **WHO)
    at_work.join()
    assert router.workers() == [] and not member("a").present


def test_the_breakers_of_a_router_are_its_own_rows_and_events_when_they_turn(fleet, start_router):
    router = start_router("--cb-failure-threshold", "2", "--cb-timeout-duration-secs", "1", "--disable-retries")
    prefill = fleet.prefill("a")
    fleet.decode("d")
    fleet.serve(router)
    settle(lambda: len(router.workers()) == 2)
    assert router.generate() == 200
    routers.reconcile()
    assert told("breaker.") == []
    prefill.answers = 500
    for _ in range(4):
        router.generate()
    settle(lambda: any(event.data["after"] == "open" for event in told("breaker.")))
    turned = told("breaker.")[0]
    assert turned.data["gateway"] == "router:r" and turned.data["before"] == "closed" and turned.data["dp"] is None
    # An open breaker of its own takes nobody off the list: it has to see him recover.
    assert len(router.workers()) == 2
    prefill.answers = 200

    def closed() -> bool:
        router.generate()
        last = {event.instance: event.data["after"] for event in told("breaker.")}
        return set(last.values()) == {"closed"}

    settle(closed)
