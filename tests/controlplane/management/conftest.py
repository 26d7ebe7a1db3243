"""Fixtures of this directory: a served fleet with simulated ranks, and commands run against it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.plugin import Backend
from tests.support.processes import Bootstrap, Child, manage


class Operator:
    """Somebody at a shell beside the bootstrap process."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env

    def run(self, *arguments: str, **knobs: str) -> subprocess.CompletedProcess[str]:
        return manage(*arguments, env={**self.env, **knobs})

    def json(self, *arguments: str):
        done = self.run(*arguments, "--json")
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    def until(self, *arguments: str, holds: Callable[[dict], bool], within: float = 15):
        end = time.monotonic() + within
        while True:
            _, found = self.json(*arguments)
            if holds(found):
                return found
            assert time.monotonic() < end, found


@pytest.fixture
def operator(bootstrap: Bootstrap) -> Operator:
    return Operator(bootstrap.env)


@pytest.fixture
def sqlite_operator(sqlite_backend: Backend) -> Operator:
    """Without a bootstrap process: the commands do not need one."""
    return Operator(sqlite_backend.env)


@pytest.fixture
def simulate(tmp_path: Path):
    """`simulate(env, "--tp", "2")` -> ranks that live until they are stopped, or the test ends."""
    running: list[Child] = []

    def start(env: dict[str, str], *options: str, until: str = '"what": "registered_all"') -> Child:
        argv = [sys.executable, "manage.py", "simulate", "--json", *options]
        child = Child(argv, env=env, log=tmp_path / f"simulate-{len(running)}.log")
        running.append(child)
        child.wait_for_line(until, timeout=20)
        return child

    yield start
    for child in running:
        child.kill9()
