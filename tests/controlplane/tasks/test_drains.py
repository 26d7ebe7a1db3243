"""The drain task: two at once, and killed at every step. The row is all it knows, and the ledger is told each thing once."""

import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from controlplane.commands import drains, instances
from controlplane.domain.topology import Topology
from controlplane.tasks.drains import check_drains
from tests.controlplane.commands.draining import WHO, Looker, acknowledge, events, join, the_drain
from tests.controlplane.queries.world import World
from tests.controlplane.tasks.dying import STEPS
from tests.doubles.engine import Engine
from tests.support.processes import ROOT


@pytest.fixture
def engine():
    with Engine(dp=2) as running:
        yield running


@pytest.fixture
def look(on_backend, engine):
    World("prefill-a").launch(Topology(2, 1, 1, 1), first_port=4000)
    join()
    instances.edit("prefill-a", engine_url=engine.url, **WHO)
    return Looker()


def chain() -> list[tuple[str, str]]:
    """Every progress that the ledger was told, and that each began where the one before ended."""
    said = [(event.data["before"], event.data["after"]) for event in events("drain.progressed")]
    assert all(one[1] == other[0] for one, other in itertools.pairwise(said)), said
    return said


def test_the_task_runs_and_may_run_without_any_drain(look):
    check_drains()
    drains.drain("prefill-a", **WHO)
    check_drains()
    assert the_drain().checked_at is not None


def test_two_that_look_at_once_tell_the_ledger_once(look, engine):
    drains.drain("prefill-a", **WHO)
    engine.counts[0].running = 1
    gate = threading.Barrier(3)

    def check(now: float) -> int:
        try:
            gate.wait(30)
            return drains.check(now)
        finally:
            connections.close_all()

    acknowledge()
    with ThreadPoolExecutor(3) as pool:
        for turn in range(8):
            engine.counts[0].running = (turn + 1) % 2
            look.now += 1.0
            before = len(events("drain.progressed"))
            changed = sum(pool.map(check, [look.now] * 3))
            assert changed == len(events("drain.progressed")) - before
    said = chain()
    assert said[-1][1] == the_drain().progress
    engine.counts[0].running = 0
    look(3)
    assert the_drain().progress == "drained" and chain()[-1] == ("empty", "drained")


def test_killed_at_any_step_the_next_look_goes_on(look, engine, on_backend):
    """A seeded sample of where and when; what is not drained is never called so on the way."""
    killed_at_every_step(look, engine, on_backend, random.Random(20250))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_any_step_in_many_orders_the_next_look_goes_on(look, engine, on_backend, seed):
    killed_at_every_step(look, engine, on_backend, random.Random(seed))


def killed_at_every_step(look: Looker, engine: Engine, on_backend, chance: random.Random) -> None:
    steps = list(STEPS)
    chance.shuffle(steps)
    env = {**on_backend.env, "DJANGO_SETTINGS_MODULE": "controlplane.settings", "PDCP_ENV_FILE": "/dev/null"}
    drains.drain("prefill-a", deadline_at=time.time() + 3600, **WHO)
    engine.counts[1].inflight = 1
    for number, step in enumerate(steps):
        look.now += 1.0
        argv = [sys.executable, "-m", "tests.controlplane.tasks.dying", step, str(look.now)]
        died = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
        assert died.returncode == -signal.SIGKILL, died.stderr
        found = the_drain()
        assert found.progress != "drained" and not found.safe_to_delete
        assert not (said := chain()) or said[-1][1] == found.progress
        if number == 1:
            acknowledge(now=look.now)
        if number == 3:
            engine.counts[1].inflight = 0
        if chance.random() < 0.5:
            engine.counts[0].running = 0 if engine.counts[0].running else 1
    engine.counts[0].running = engine.counts[1].inflight = 0
    acknowledge(now=look.now)
    look(4)
    assert the_drain().progress == "drained" and the_drain().safe_to_delete
    chain()
