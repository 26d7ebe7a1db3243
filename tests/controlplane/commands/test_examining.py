"""Engines that really answer, or do not: what is stored of it, what the ledger is told, and by how many workers at once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import django.conf
import pytest
from django.db import DatabaseError, connections

from controlplane.commands import examining, instances, keeping_health, suspecting
from controlplane.commands.examining import Examiner
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import latest
from controlplane.models import EngineHealth, Instance, Suspicion
from controlplane.probes import engines
from controlplane.probes.networks import parse_networks
from controlplane.queries import fleet, routable
from tests.controlplane.commands.draining import WHO
from tests.doubles.engine import Engine
from tests.doubles.serving import Server
from tests.support.ports import free_port


class Settings:
    """Sets what the test sets, until it ends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.__dict__["patch"] = patch

    def __setattr__(self, name: str, value: object) -> None:
        self.patch.setattr(django.conf.settings, name, value, raising=False)


@pytest.fixture
def settings(monkeypatch):
    return Settings(monkeypatch)


@pytest.fixture(autouse=True)
def often(settings):
    """Whoever is asked is due at once, and a busy machine is no engine that hangs."""
    settings.PDCP_HEALTH_INTERVAL_SECONDS = 0.000_001
    settings.PDCP_HEALTH_TIMEOUT_SECONDS = 20.0
    settings.PDCP_PROBE_NETWORKS = parse_networks("127.0.0.0/8")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(examining, "SPREAD_SECONDS", 0.0)
    monkeypatch.setattr(engines, "INFO_SECONDS", 20.0)


@pytest.fixture
def engine(on_backend):
    with Engine("decode", model="glm") as running:
        instances.add("d", role="decode", engine_url=running.url, **WHO)
        yield running


@pytest.fixture
def examiner():
    return Examiner(again=False)


def the_engine(name: str = "d"):
    return fleet.instance(name, now=time.time())[0].engine


def turned(name: str = "d") -> list[str]:
    return [event.data["state"] for event in latest(500, instance=name) if event.kind == "engine.turned"]


def verdict(name: str = "d"):
    return routable.instance(name, now=time.time()).verdict


def rounds(examiner: Examiner, times: int) -> None:
    for _ in range(times):
        examiner.round()


def test_an_engine_is_up_with_who_it_is_and_what_it_holds(engine, examiner):
    engine.counts[0].running = 3
    assert the_engine().state == "unknown" and verdict().routable
    examiner.round()
    seen = the_engine()
    assert (seen.state, seen.status, seen.model, seen.version, seen.mode) == ("up", 200, "glm", "0.5.23", "decode")
    assert seen.load["running"] == 3 and seen.proof_at and seen.took and not seen.error
    assert seen.signals() == {"connect": True, "http": True, "progress": None}
    reasons = {reason.code: reason for reason in verdict().reasons}
    assert reasons["engine_up"].seen_at == seen.asked_at and not reasons["engine_up"].old
    identified = next(event for event in latest(50, instance="d") if event.kind == "engine.identified")
    assert identified.data["after"] == {"mode": "decode", "model": "glm", "version": "0.5.23"}
    assert turned() == ["up"]


def test_refused_three_times_is_down_and_takes_no_requests_and_two_answers_bring_it_back(engine, examiner):
    examiner.round()
    engine.stop()
    rounds(examiner, 2)
    assert the_engine().state == "late" and verdict().routable
    examiner.round()
    seen = the_engine()
    assert (seen.state, seen.why) == ("down", "refused") and not verdict().routable
    assert "refuses connections" in verdict().because
    assert seen.signals() == {"connect": False, "http": False, "progress": None}
    rounds(examiner, 5)
    engine.start()
    examiner.round()
    assert the_engine().state == "down"
    examiner.round()
    assert the_engine().state == "up" and verdict().routable
    assert turned() == ["up", "late", "down", "up"], "only turns are told"


def test_whoever_answers_otherwise_than_expected_is_asked_again_after_a_third_of_a_second(engine):
    examiner = Examiner()
    examiner.round()
    asked = engine.count("/health")
    began = time.monotonic()
    engine.script.append(503)
    examiner.round()
    assert engine.count("/health") == asked + 2 and time.monotonic() - began >= 0.3
    assert the_engine().state == "up" and the_engine().fails == 0
    assert turned() == ["up"], "one miss that was forgiven is told to nobody"


def test_one_that_hangs_is_silent_then_lost_and_one_that_computes_meanwhile_is_busy(engine, examiner, settings):
    examiner.round()
    engine.health_seconds = 60
    settings.PDCP_HEALTH_TIMEOUT_SECONDS = 0.4
    rounds(examiner, 3)
    assert (the_engine().state, the_engine().why) == ("late", "busy") and verdict().routable
    assert the_engine().signals() == {"connect": True, "http": False, "progress": True}
    engine.loads = 500
    rounds(examiner, 3)
    assert (the_engine().state, the_engine().why) == ("silent", "timeout") and verdict().routable
    settings.PDCP_HEALTH_LOST_SECONDS = 0.001
    examiner.round()
    assert (the_engine().state, the_engine().why) == ("down", "lost") and not verdict().routable


def test_503_is_starting_at_first_busy_while_it_computes_and_down_when_it_does_not(engine, examiner):
    engine.health = 503
    rounds(examiner, 5)
    assert the_engine().state == "starting" and not verdict().routable
    engine.health = 200
    examiner.round()
    assert the_engine().state == "up"
    engine.health = 503
    rounds(examiner, 5)
    assert (the_engine().state, the_engine().why) == ("late", "busy")
    engine.clock = -60.0
    engine.freeze()
    engine.clock = 0.0
    rounds(examiner, 3)
    assert (the_engine().state, the_engine().why) == ("down", "failing") and not verdict().routable


class OtherProgram(Server):
    """Answers 200 to /health, and is no engine."""

    def routes(self, app) -> None:
        from aiohttp import web

        app.router.add_get("/health", self._well)
        self._web = web

    async def _well(self, request):
        return self._web.Response(text="fine")


def test_another_program_at_the_address_is_a_stranger(on_backend, examiner):
    with OtherProgram() as other:
        instances.add("d", role="decode", engine_url=other.url, **WHO)
        rounds(examiner, 3)
    assert the_engine().state == "stranger" and "does not say what it is" in verdict().because


def test_an_engine_of_the_other_role_is_a_stranger_and_it_is_said_of_which(engine, examiner):
    examiner.round()
    engine.role = "prefill"
    engine.started_at += 60
    examiner._known.clear()
    EngineHealth.objects.using(FACTS).update(identified_at=0.0)
    rounds(examiner, 3)
    assert (the_engine().state, the_engine().why) == ("stranger", "role")
    assert "it says that it is a prefill, and a decode is meant" in verdict().because


def test_an_address_that_was_never_reached_keeps_nobody_away(on_backend, examiner, settings):
    settings.PDCP_PROBE_NETWORKS = parse_networks("none")
    instances.add("d", role="decode", **WHO)
    # It was allowed when it was written down.
    fleet.Instance.objects.using(FACTS).filter(name="d").update(engine_url="http://127.0.0.1:30000")
    rounds(examiner, 5)
    assert the_engine().state == "unknown" and "outside PDCP_PROBE_NETWORKS" in the_engine().error
    assert verdict().routable and turned() == []


def test_without_a_url_nobody_is_asked_and_it_is_unknown(on_backend, examiner):
    instances.add("p", **WHO)
    assert examiner.round().asked == 0
    assert the_engine("p").state == "unknown" and the_engine("p").at == ""
    assert not [reason for reason in verdict("p").reasons if reason.code.startswith("engine_")]


def test_a_new_address_begins_anew_and_a_verdict_on_the_old_one_ends(engine, examiner):
    examiner.round()
    engine.stop()
    rounds(examiner, 3)
    assert turned()[-1] == "down"
    with Engine("decode") as another:
        instances.edit("d", engine_url=another.url, **WHO)
        assert the_engine().state == "unknown" and verdict().routable, "of the new address nothing is known"
        examiner.round()
        assert (the_engine().state, the_engine().at) == ("up", another.url)
    instances.edit("d", engine_url="", **WHO)
    examiner.round()
    assert turned()[-3:] == ["down", "up", "unknown"] and the_engine().at == ""


def test_a_restart_of_ours_resets_nothing_and_a_verdict_that_nobody_renews_stays_and_is_shown_as_old(engine, examiner):
    examiner.round()
    engine.stop()
    rounds(examiner, 3)
    engine.start()
    later = time.time() + 3600
    old = routable.instance("d", now=later).verdict.reasons[0]
    assert (old.code, old.blocks, old.old) == ("engine_down", True, True)
    # A new worker goes on from what is stored, counts of misses and of answers too.
    Examiner(again=False).round()
    assert the_engine().state == "down" and the_engine().passes == 1
    Examiner(again=False).round()
    assert the_engine().state == "up"


def test_two_workers_that_look_at_once_tell_the_ledger_once(engine):
    gate = threading.Barrier(2)
    workers = [Examiner(again=False) for _ in range(2)]

    def look(worker: Examiner) -> int:
        try:
            gate.wait(30)
            return worker.round().turned
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(look, workers)) == 1
        engine.stop()
        for _ in range(6):
            list(pool.map(look, workers))
    assert turned()[0] == "up" and turned()[-1] == "down" and len(turned()) == len(set(turned()))


def test_most_that_fail_together_are_our_fault_and_nothing_is_held_against_them(on_backend, examiner):
    running = [Engine("decode").start() for _ in range(6)]
    for place, one in enumerate(running):
        instances.add(f"d{place}", role="decode", engine_url=one.url, **WHO)
    examiner.round()
    for one in running[:4]:
        one.stop()
    rounds(examiner, 5)
    assert examiner.paused and all(the_engine(f"d{place}").state == "up" for place in range(6))
    seen = the_engine("d0")
    assert seen.withheld_since and seen.error == "it refused the connection" and verdict("d0").routable
    for one in running[:3]:
        one.start()
    rounds(examiner, 4)
    assert not examiner.paused
    states = [the_engine(f"d{place}") for place in range(6)]
    assert [one.state for one in states] == ["up", "up", "up", "down", "up", "up"]
    assert not any(one.withheld_since for one in states)
    for one in running:
        one.stop()


class Waiting:
    """A round in a thread of its own, which waits for whoever hangs until the test ends that."""

    def __init__(self, examiner: Examiner, *, suspects_only: bool = False) -> None:
        def run() -> None:
            examiner.round(suspects_only=suspects_only)
            connections.close_all()

        self.thread = threading.Thread(target=run)

    def until(self, holds, step=lambda: None) -> None:
        end = time.monotonic() + 60
        while not holds():
            assert self.thread.is_alive() and time.monotonic() < end
            step()
            time.sleep(0.02)


def test_one_that_hangs_holds_up_nobody_else_in_its_own_round_either(on_backend, examiner):
    with Engine("decode") as hung, Engine("decode") as quick:
        hung.health_seconds = 60
        instances.add("hung", role="decode", engine_url=hung.url, **WHO)
        instances.add("quick", role="decode", engine_url=quick.url, **WHO)
        waiting = Waiting(examiner)
        waiting.thread.start()
        waiting.until(lambda: hung.count("/health") == 1)
        waiting.until(lambda: quick.count("/health") == 3, examiner.round)
        assert the_engine("quick").state == "up" and hung.count("/health") == 1
        hung.stop()
        waiting.thread.join(60)


def test_those_that_hang_are_waited_for_by_one_round_at_a_time(on_backend, examiner, settings):
    with Engine("decode") as one, Engine("decode") as another, Engine("decode") as quick:
        for name, engine in (("one", one), ("another", another), ("quick", quick)):
            instances.add(name, role="decode", engine_url=engine.url, **WHO)
        one.health_seconds = another.health_seconds = 60
        settings.PDCP_HEALTH_TIMEOUT_SECONDS = 0.3
        examiner.round()
        settings.PDCP_HEALTH_TIMEOUT_SECONDS = 20.0
        suspecting.suspect("one", **WHO)
        waiting = Waiting(examiner, suspects_only=True)
        waiting.thread.start()
        waiting.until(lambda: one.count("/health") == 2)
        suspecting.suspect("another", **WHO)
        waiting.until(lambda: quick.count("/health") >= 3, examiner.round)
        assert another.count("/health") == 1
        one.stop()
        another.stop()
        waiting.thread.join(60)
        assert examiner.round().asked == 3


def test_the_time_in_which_we_were_away_ourselves_is_not_held_against_an_engine(engine, examiner, settings):
    """A clockwork that was down for an hour comes back while the engine computes a long prompt."""
    examiner.round()
    long_ago = time.time() - 3600
    EngineHealth.objects.using(FACTS).update(asked_at=long_ago, answered_at=long_ago, proof_at=long_ago)
    engine.health_seconds, engine.loads = 60, 500
    settings.PDCP_HEALTH_TIMEOUT_SECONDS = 0.3
    afresh = Examiner(again=False)
    rounds(afresh, 4)
    assert (the_engine().state, the_engine().why) == ("silent", "timeout") and verdict().routable
    settings.PDCP_HEALTH_LOST_SECONDS = 0.001
    afresh.round()
    assert (the_engine().state, the_engine().why) == ("down", "lost")


def test_what_cannot_be_stored_now_is_stored_by_the_next_round(engine, examiner, monkeypatch):
    def away(changes):
        raise DatabaseError("away")

    monkeypatch.setattr(examining, "keep", away)
    examiner.round()
    assert the_engine().state == "unknown"
    monkeypatch.setattr(examining, "keep", keeping_health.keep)
    examiner.round()
    assert the_engine().state == "up" and turned() == ["up"]


def test_what_only_gets_older_is_not_written_each_time(engine, examiner):
    examiner.round()
    version = EngineHealth.objects.using(FACTS).get().version
    rounds(examiner, 5)
    assert EngineHealth.objects.using(FACTS).get().version == version
    for known in examiner._known.values():
        known.stored_at -= examining.KEEP_SECONDS
    before = the_engine().asked_at
    examiner.round()
    assert the_engine().asked_at > before and EngineHealth.objects.using(FACTS).get().version == version + 1


def test_thresholds_of_an_instance_are_its_own(engine, examiner):
    instances.edit("d", fail_after=1, pass_after=1, **WHO)
    examiner.round()
    engine.stop()
    examiner.round()
    assert the_engine().state == "down"
    engine.start()
    examiner.round()
    assert the_engine().state == "up"


def test_who_is_suspected_is_asked_at_once_whoever_else_is_not_due(engine, settings):
    settings.PDCP_HEALTH_INTERVAL_SECONDS = 3600.0
    examiner = Examiner()
    examiner.round()
    engine.stop()
    assert examiner.round().asked == 0
    assert suspecting.suspect("d", **WHO).changed
    assert not suspecting.suspect("d", **WHO).changed, "it is being asked already"
    for _ in range(2):
        assert examiner.round(suspects_only=True).asked
        assert examiner.round(suspects_only=True).asked == 0
        Suspicion.objects.using(FACTS).update(at=0.0)
        assert suspecting.suspect("d", **WHO).changed
    assert the_engine().state == "down"
    assert Suspicion.objects.using(FACTS).count() == 1


def test_who_cannot_be_suspected_is_refused_with_a_sentence(on_backend):
    with pytest.raises(Refused, match="no instance is named ghost"):
        suspecting.suspect("ghost", **WHO)
    instances.add("p", **WHO)
    instances.retire("p", **WHO)
    with pytest.raises(Refused, match="p is retired"):
        suspecting.suspect("p", **WHO)
    with pytest.raises(Refused, match="an actor is needed"):
        suspecting.suspect("p", actor="")


def test_an_address_that_may_not_be_asked_any_more_keeps_nobody_else_from_being_asked(engine, examiner):
    instances.add("p", role="decode", engine_url="http://127.0.0.1:30000", **WHO)
    Instance.objects.using(FACTS).filter(name="p").update(engine_url="http://127.0.0.1:6379")
    examiner.round()
    assert the_engine().state == "up" and the_engine("p").state == "unknown"
    assert "port 6379 is not one" in the_engine("p").error


def test_retired_instances_are_left_alone(engine, examiner):
    examiner.round()
    instances.retire("d", **WHO)
    asked = engine.count("/health")
    examiner.round()
    assert engine.count("/health") == asked and turned() == ["up", "unknown"]
    instances.add("d", role="decode", engine_url=engine.url, **WHO)
    examiner.round()
    assert the_engine().state == "up"


def test_an_observed_decode_is_asked_where_it_is_observed(on_backend, examiner):
    with Engine("decode") as one:
        instances.add("d", role="decode", observed_url=one.url, **WHO)
        examiner.round()
        assert the_engine().state == "up"


def test_nothing_is_asked_where_it_is_switched_off(engine, examiner, settings):
    settings.PDCP_HEALTH_INTERVAL_SECONDS = 0.0
    assert examiner.round().asked == 0 and engine.count("/health") == 0
    assert free_port()


def test_a_verdict_that_nobody_renews_any_more_since_it_is_switched_off_keeps_no_work_away(engine, examiner, settings):
    engine.stop()
    rounds(examiner, 3)
    assert not verdict().routable
    settings.PDCP_HEALTH_INTERVAL_SECONDS = 0.0
    rounds(examiner, 2)
    assert the_engine().state == "unknown" and verdict().routable and turned() == ["down", "unknown"]
