"""Public reports: what probes of engines' own HTTP servers must not mistake, and what they must notice."""

import time
from collections import Counter

import django.conf
import pytest

import tests.controlplane.conftest  # noqa: F401  (Django in this process, on databases that vanish with it)
from tests.controlplane.commands.on_backend import inside
from tests.controlplane.routers.conftest import fleet, on_backend
from tests.doubles.engine import Engine
from tests.doubles.router import StubbornRouter
from tests.doubles.serving import Server
from tests.wire.conftest import Server as Bootstrap

__all__ = ["fleet", "on_backend"]

WHO = {"actor": "anna", "reason": "a case"}
OK, FAIL = 200, 503


@pytest.fixture(autouse=True)
def always_due(monkeypatch):
    """Rounds follow each other as tests want them."""
    from controlplane.commands import examining
    from controlplane.probes import engines
    from controlplane.probes.networks import parse_networks

    settings = django.conf.settings
    monkeypatch.setattr(settings, "PDCP_HEALTH_INTERVAL_SECONDS", 0.000_001)
    monkeypatch.setattr(settings, "PDCP_HEALTH_TIMEOUT_SECONDS", 20.0)
    monkeypatch.setattr(engines, "INFO_SECONDS", 20.0)
    monkeypatch.setattr(settings, "PDCP_PROBE_NETWORKS", parse_networks("127.0.0.0/8"))
    monkeypatch.setattr(examining, "SPREAD_SECONDS", 0.0)


def look(times: int = 1) -> None:
    """As a worker does that has just been started: it knows what is stored, and nothing else."""
    from controlplane.commands.examining import Examiner

    for _ in range(times):
        Examiner(again=False).round()


def engine_of(name: str):
    from controlplane.queries import fleet

    return fleet.instance(name, now=time.time())[0].engine


def routable(name: str) -> bool:
    from controlplane.queries import routable

    return routable.instance(name, now=time.time()).routable


def test_HLT_07_one_missed_probe_takes_nobody_out_and_thresholds_hold_both_ways_over_restarts_of_ours(on_backend):
    from controlplane.commands import instances
    from controlplane.ledger.tail import latest

    seen = []
    with Engine("decode") as engine:
        # It says that it is not well, and does not compute: a miss like any other.
        engine.loads = 500
        instances.add("d", role="decode", engine_url=engine.url, fail_after=3, pass_after=2, **WHO)
        for answer in (OK, FAIL, OK, FAIL, FAIL, OK, FAIL, FAIL, FAIL, OK, FAIL, OK, OK):
            engine.script.append(answer)
            look()
            seen.append(routable("d"))
        assert seen == [True] * 8 + [False] * 4 + [True]
        assert engine.count("/health") == len(seen)
        # Its own thresholds, and its own interval.
        instances.edit("d", fail_after=1, pass_after=1, probe_seconds=3600, **WHO)
        engine.script.append(FAIL)
        look()
        assert not routable("d")
        turned = [event.data["state"] for event in latest(100, instance="d") if event.kind == "engine.turned"]
        assert Counter(turned)["down"] == 2, "it did not flap"
        from controlplane.commands.examining import Examiner

        one, asked = Examiner(again=False), engine.count("/health")
        for _ in range(5):
            one.round()
        assert engine.count("/health") == asked + 1, "once an hour is once"


class Anything(Server):
    """Another program, which answers 200 to whatever it is asked."""

    def routes(self, app) -> None:
        from aiohttp import web

        async def fine(request):
            return web.Response(text="ok")

        app.router.add_route("*", "/{path:.*}", fine)


def test_HLT_05_an_address_that_changes_hands_is_not_adopted_by_us_or_by_the_router_that_held_it(fleet):
    from controlplane.commands import instances, routers

    with StubbornRouter() as router:
        p1, p2, p3 = (fleet.decode(f"p{place}") for place in (1, 2, 3))
        fleet.serve(router, instances=["p1", "p2", "p3"])
        look()
        routers.reconcile()
        assert router.urls() == sorted([p1.url, p2.url, p3.url])
        # p1 is deleted without a word and comes up elsewhere; p2 answers on, and is no decode any more; p3's address is
        # another program's, which answers 200 to /health.
        p1.stop(), p3.stop()
        p2.role, p2.started_at = "null", p2.started_at + 1
        with Anything(port=p3.port), Engine("decode") as p1_again:
            forget_who_they_were()
            look(3)
            assert [engine_of(name).state for name in ("p1", "p2", "p3")] == ["down", "stranger", "stranger"]
            routers.reconcile()
            assert router.urls() == []
            instances.edit("p1", engine_url=p1_again.url, **WHO)
            look()
            routers.reconcile()
            assert router.urls() == [p1_again.url]
            assert [routable(name) for name in ("p1", "p2", "p3")] == [True, False, False]
            assert "does not say what it is" in engine_of("p3").error
            assert "not disaggregated" in engine_of("p2").error


def forget_who_they_were() -> None:
    """As after ten seconds: who somebody is, is asked again."""
    from controlplane.databases import FACTS
    from controlplane.models import EngineHealth

    EngineHealth.objects.using(FACTS).update(identified_at=0.0)


def test_HLT_08_an_engine_that_computes_is_busy_and_one_that_is_gone_is_dead_signal_by_signal(watch, ranks):
    from tests.cases.ranks import complete, eventually
    from tests.cases.test_health import register

    one: Bootstrap = watch()
    with Engine() as busy, Engine() as dead, inside(one.backend):
        from controlplane.commands import instances
        from controlplane.queries import explain

        ports = {}
        for name, engine in (("busy", busy), ("dead", dead)):
            instances.add(name, engine_url=engine.url, **WHO)
            ports[name] = ranks.open()
            client = one.kv(name)
            eventually(lambda client=client, name=name: register_now(register, client, ports[name]))
            complete(client)
            assert client.bind(5, 0).status == 200
        look()
        assert routable("busy") and routable("dead")
        # /health answers 503 for ninety probes, while its counters move.
        busy.health = FAIL
        dead.stop()
        ranks.die(ports["dead"])
        for _ in range(90):
            busy.counts[0].running += 1
            look()
        seen, gone = engine_of("busy"), engine_of("dead")
        assert (seen.state, seen.why) == ("late", "busy") and routable("busy")
        assert seen.signals() == {"connect": True, "http": False, "progress": True}
        assert (gone.state, gone.why) == ("down", "refused") and not routable("dead")
        assert gone.signals() == {"connect": False, "http": False, "progress": None}
        # Rows and rooms of the busy one are kept; of the dead one its ranks were seen to go.
        assert one.kv("busy").find(5).json() == {"5": 0} and one.kv("busy").topology().status == 200
        eventually(lambda: one.kv("dead").health() == 503)
        told = " ".join(explain.explain_instance("busy", now=time.time()))
        assert "it is busy" in told and "its load is fresh, so its scheduler runs" in told
        told = " ".join(explain.explain_instance("dead", now=time.time()))
        assert "refuses connections" in told and "no connection came about" in told
        busy.health = OK
        look()
        assert engine_of("busy").state == "up"


def register_now(register, client, port: int) -> bool:
    """True once the bootstrap process has read that the instance was added."""
    register(client, [port])
    return True


def test_HLT_04_no_verdict_on_a_decode_is_derived_from_a_prefill_that_died(on_backend):
    from controlplane.commands import instances

    with Engine("decode") as decode, Engine() as a, Engine() as b:
        for name, role, engine in (("d", "decode", decode), ("a", "prefill", a), ("b", "prefill", b)):
            instances.add(name, role=role, engine_url=engine.url, **WHO)
        look()
        a.stop()
        look(5)
        assert [engine_of(name).state for name in ("a", "b", "d")] == ["down", "up", "up"]
        assert engine_of("d").fails == 0 and routable("d")
