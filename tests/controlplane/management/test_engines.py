"""Engines at the shell: `suspect` asks at once and says what came of it; `instances` sets thresholds."""

import threading

import pytest
from django.db import connections

from controlplane.commands import examining, instances
from controlplane.commands.examining import Examiner
from tests.doubles.engine import Engine

WHO = {"actor": "anna"}


@pytest.fixture
def engine(on_backend, monkeypatch):
    monkeypatch.setattr(examining, "SPREAD_SECONDS", 0.0)
    with Engine("decode", model="glm") as running:
        instances.add("d", role="decode", engine_url=running.url, **WHO)
        yield running


@pytest.fixture
def clockwork(engine):
    """Rounds of a worker, one after the other."""
    done, examiner = threading.Event(), Examiner()

    def work() -> None:
        try:
            while not done.wait(0.1):
                examiner.round()
        finally:
            connections.close_all()

    worker = threading.Thread(target=work)
    worker.start()
    yield
    done.set()
    worker.join(30)


def test_a_doubt_is_answered_with_what_the_engine_said(alone, engine, clockwork):
    code, document = alone.json("suspect", "d", "--reason", "slow", "--wait", "60")
    assert (code, document["asked"], document["engine"]["state"]) == (0, True, "up")
    done = alone.run("suspect", "d", "--wait", "60")
    assert done.returncode == 0 and "Its engine is up for" in done.stdout and "model glm" in done.stdout


def test_where_nobody_asks_that_is_said_and_the_exit_code_too(alone, engine):
    done = alone.run("suspect", "d", "--wait", "0.2")
    assert done.returncode == 1 and "does the clockwork run?" in done.stdout
    assert alone.run("suspect", "d", "--wait", "0").returncode == 0
    instances.add("p", **WHO)
    done = alone.run("suspect", "p")
    assert done.returncode == 0 and "its ranks alone are asked" in done.stdout
    assert alone.run("suspect", "ghost").returncode == 1


def test_thresholds_are_given_and_taken_away(alone, on_backend):
    assert alone.run("instances", "add", "p", "--fail-after", "5", "--probe-seconds", "2.5").returncode == 0
    _, document = alone.json("instances", "list")
    assert [document["instances"][0][key] for key in ("probe_seconds", "fail_after", "pass_after")] == [2.5, 5, None]
    assert alone.run("instances", "edit", "p", "--no-fail-after", "--pass-after", "3").returncode == 0
    _, document = alone.json("instances", "list")
    assert [document["instances"][0][key] for key in ("probe_seconds", "fail_after", "pass_after")] == [2.5, None, 3]
    refused = alone.run("instances", "edit", "p", "--fail-after", "0")
    assert refused.returncode == 2 and "fail_after is between 1 and 100, not 0" in refused.stderr
