"""Processes of the demo: started, ready, started again when they end by themselves, ended with all that they started."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest

from controlplane.supervisor import lockfile
from controlplane.supervisor.children import Recipe
from controlplane.supervisor.guard import Guard
from demo.crew import Crew, Ended
from tests.support.machine import slowness

READY = re.compile("^ready")


def recipe(name: str, code: str, **more) -> Recipe:
    return Recipe(name, (sys.executable, "-u", "-c", code), ready=READY, **more)


FAITHFUL = "import time; print('ready', flush=True); time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); {FAITHFUL}"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
async def crew(tmp_path: Path, said: list[str]):
    lock = lockfile.take(tmp_path)
    guard = Guard(lock=lock)
    made = Crew(cwd=tmp_path, env=dict(os.environ), logs=tmp_path, guard=guard, say=said.append)
    yield made
    made.kill_all()
    guard.dismiss()
    os.close(lock)


async def test_who_ends_by_itself_is_said_and_started_again_and_who_is_killed_on_purpose_is_not(
    crew, said, monkeypatch
):
    monkeypatch.setattr("demo.crew.AGAIN_SECONDS", 0.0)
    for name in ("one", "two"):
        crew.start(recipe(name, FAITHFUL))
        await crew.ready(name, within=20 * slowness())
    first = crew.pid("one")
    crew.signal("one", signal.SIGKILL)
    crew.kill("two")
    while not said:
        crew.look_after()
        await asyncio.sleep(0.01)
    assert said == ["one ended by itself (exit -9); it is started again"]
    await crew.ready("one", within=20 * slowness())
    assert crew.is_ready("one") and crew.pid("one") != first and not crew.runs("two")


async def test_all_end_with_what_they_started_also_those_that_were_stopped(crew):
    for name in ("one", "two", "last"):
        crew.start(recipe(name, PARENT))
        await crew.ready(name, within=20 * slowness())
    crew.signal("two", signal.SIGSTOP)
    family = [p for name in ("one", "two", "last") for p in psutil.Process(crew.pid(name)).children(recursive=True)]
    assert len(family) == 3
    await crew.end_all(last="last")
    assert not any(crew.runs(name) for name in ("one", "two", "last"))
    assert not psutil.wait_procs(family, timeout=20)[1]


async def test_who_cannot_start_is_said_with_the_end_of_its_log(crew):
    crew.start(recipe("one", "import sys; print('port 1 is taken', file=sys.stderr); sys.exit(3)"))
    with pytest.raises(Ended, match=r"one could not start \(exit 3\)\.\n  \| port 1 is taken"):
        await crew.ready("one")


async def test_who_says_nothing_in_time_is_said_too(crew):
    crew.start(recipe("one", "import time; time.sleep(600)"))
    with pytest.raises(Ended, match=r"one was not ready within 0\.2 s"):
        await crew.ready("one", within=0.2)
