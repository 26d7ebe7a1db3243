"""A /health is a request that an engine computes: while its scheduler stands still, it is not sent one after another."""

from collections.abc import Iterator

import pytest

from controlplane.commands import known_engines
from controlplane.commands.known_engines import Known
from controlplane.domain.engine_health import Answer, Heard, Memory, State
from controlplane.probes import engines
from controlplane.probes.engines import Finding, Patient, stream
from controlplane.probes.networks import ProbePolicy, parse_networks
from tests.doubles.engine import Engine

HERE = ProbePolicy(parse_networks("127.0.0.0/8"))
UP = Memory("http://e", State.UP, served=True, identified_at=2e9)
HANGS = 0.4
"""Seconds of patience with one that does not answer; who answers does so sooner, and is given more."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine("decode", dp=2) as one:
        one.health_seconds = 60
        one.still = dict.fromkeys(range(2), engines.FRESH_SECONDS + 1)
        yield one


def ask(engine: Engine, *, spare: bool, again: bool = False, timeout: float = HANGS) -> list[Finding]:
    patient = Patient(1, "decode", engine.url, UP, again=again, spare=spare)
    return [finding for found in stream([patient], allowed=HERE, timeout=timeout) for finding in found]


def test_one_that_stands_still_is_asked_for_its_load_alone_and_for_more_once_it_runs(engine):
    first, second = ask(engine, spare=False, again=True)
    assert (first.heard.answer, first.heard.spared) == (Answer.TIMEOUT, False)
    assert (second.heard.answer, second.heard.spared) == (Answer.TIMEOUT, True), "not even the second look asks again"
    assert engine.count("/health") == 1
    for _ in range(5):
        (found,) = ask(engine, spare=True)
        assert (found.heard.answer, found.heard.computes, found.heard.spared) == (Answer.TIMEOUT, False, True)
        assert "scheduler stands still" in found.heard.error
    assert engine.count("/health") == 1
    engine.still.clear()
    engine.health_seconds = 0
    (found,) = ask(engine, spare=True, timeout=20)
    assert found.heard.answer is Answer.WELL and engine.count("/health") == 2


@pytest.mark.parametrize("loads", [404, 401, 500])
def test_one_whose_load_does_not_tell_is_asked_as_before(engine, loads):
    engine.loads = loads
    (found,) = ask(engine, spare=True)
    assert not found.heard.spared and engine.count("/health") == 1


def test_one_that_is_gone_is_refused_however_it_is_asked(engine):
    engine.stop()
    (found,) = ask(engine, spare=True, timeout=20)
    assert found.heard.answer is Answer.REFUSED


def test_nobody_is_spared_for_ever_nor_whoever_answers(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(known_engines.time, "monotonic", lambda: now[0])
    known = Known(None, UP, UP, 1, 0.0)  # type: ignore[arg-type]
    assert not known.spare
    for patience in (20.0, 40.0, 60.0, 60.0):
        known.count(Heard(Answer.TIMEOUT))
        for _ in range(9):
            known.count(Heard(Answer.TIMEOUT, spared=True))
        now[0] += patience - 0.1
        assert known.spare
        now[0] += 0.2
        assert not known.spare
    known.count(Heard(Answer.TIMEOUT))
    assert known.anew(None, UP, UP, 2, 0.0).spare  # type: ignore[arg-type]
    elsewhere = Memory("http://f", State.UP)
    assert not known.anew(None, elsewhere, elsewhere, 2, 0.0).spare  # type: ignore[arg-type]
    known.count(Heard(Answer.WELL))
    assert not known.spare
    known.count(Heard(Answer.UNWELL, 503, took=0.1))
    assert not known.spare, "one that starts, or ends, says so at once"
    known.count(Heard(Answer.UNWELL, 503, took=20.0))
    assert known.spare


def weighed(engine: Engine) -> Heard:
    engine.health_seconds = 0
    patient = Patient(1, "decode", engine.url, UP, weigh=True, again=False)
    return next(finding.heard for found in stream([patient], allowed=HERE, timeout=20) for finding in found)


def test_of_an_engine_whose_health_is_well_it_is_seen_that_one_of_its_dp_ranks_stands_still(engine):
    engine.counts[1].running = 7
    engine.still = {1: engines.STILL_SECONDS + 1}
    heard = weighed(engine)
    assert heard.answer is Answer.WELL and heard.computes and heard.load is not None
    assert (heard.load["still"], heard.load["still_dp"]) == (1, 1)
    engine.still = {1: engines.STILL_SECONDS - 5}
    heard = weighed(engine)
    assert heard.load is not None and "still" not in heard.load, "a long batch is none"


def test_what_it_held_before_its_scheduler_stopped_is_not_what_it_holds(engine):
    """Its /health is well all the same: it counts any answer that came meanwhile."""
    heard = weighed(engine)
    assert (heard.answer, heard.computes, heard.load) == (Answer.WELL, False, None)
