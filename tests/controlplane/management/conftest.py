"""Fixtures of this directory: a served fleet with simulated ranks, and commands run against it."""

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import execute_from_command_line

from tests.controlplane.commands.on_backend import on_backend
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap, Child

__all__ = ["on_backend"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


class Operator:
    """Somebody at a shell. `run` is the command line without the second that a new process takes to start."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = dict(env)

    def run(self, *arguments: str) -> Said:
        out, err = io.StringIO(), io.StringIO()
        code = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                execute_from_command_line(["manage.py", *arguments])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Said(code, out.getvalue(), err.getvalue())

    def json(self, *arguments: str) -> tuple[int, Any]:
        done = self.run(*arguments, "--json")
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    def until(self, *arguments: str, holds: Callable[[Any], bool], within: float = 40) -> Any:
        end = time.monotonic() + within
        while True:
            _, found = self.json(*arguments)
            if holds(found):
                return found
            assert time.monotonic() < end, found
            time.sleep(0.05)


@pytest.fixture
def operator(bootstrap: Bootstrap, on_backend: Backend) -> Operator:
    """Beside a bootstrap process that serves, on both kinds of database."""
    return Operator(bootstrap.env)


@pytest.fixture
def alone(on_backend: Backend) -> Operator:
    """Without a bootstrap process: the commands do not need one."""
    return Operator(on_backend.env)


@pytest.fixture
def sqlite_env(sqlite_backend: Backend) -> dict[str, str]:
    """For commands that have to be processes of their own."""
    return sqlite_backend.env


@pytest.fixture
def simulate(tmp_path: Path):
    """`simulate(env, "--tp", "2")` -> ranks that live until they are stopped, or the test ends."""
    running: list[Child] = []

    def start(env: dict[str, str], *options: str, until: str = '"what": "registered_all"') -> Child:
        argv = [sys.executable, "manage.py", "simulate", "--json", *options]
        child = Child(argv, env=env, log=tmp_path / f"simulate-{len(running)}.log")
        running.append(child)
        child.wait_for_line(until, timeout=60)
        return child

    yield start
    for child in running:
        child.kill9()
