"""The SGLang process, and what its clients are pointed at: SGLang's own servers, or ours."""

import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.plugin import Backend
from tests.support.ports import free_port
from tests.support.processes import Bootstrap, Child, NotReady, clean_env

VERSION = "0.5.23"


class SGLang:
    """The driver process; started at the first question, and again after one that it did not survive."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._child: Child | None = None

    def open(self, scenario: str, **arguments: Any) -> Any:
        """Start a scenario; -> the facts it yields first."""
        return self._ask({"open": scenario, "with": arguments})

    def go_on(self) -> Any:
        return self._ask({"go": None})

    def serve(self, kv_port: int, engine_port: int) -> None:
        self._ask({"serve": [kv_port, engine_port]})

    def close(self, kv_port: int) -> None:
        self._ask({"close": kv_port})

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill9()

    def _ask(self, command: dict[str, Any]) -> Any:
        child = self._child or self._start()
        heard = len(child.lines)
        child.say(json.dumps(command))
        try:
            line = child.wait_for_line(r"^ANSWER (.*)$", timeout=90, after=heard)
        except NotReady:
            child.kill9()
            self._child = None
            raise
        answer = json.loads(line.group(1))
        assert "failed" not in answer, f"{command}\n{answer['failed']}"
        return answer["said"]

    def _start(self) -> Child:
        command = [sys.executable, "-m", "tests.compat.driver"]
        env = clean_env(OMP_NUM_THREADS=1, SGLANG_HOST_IP="127.0.0.1", NO_PROXY="*")
        self._child = Child(command, env=env, log=self._log, stdin=True)
        self._child.wait_for_line("^READY$", timeout=90)
        return self._child


@dataclass
class Target:
    """Where the clients are sent. `ours` is None when it is SGLang itself."""

    kv_port: int
    engine_port: int
    start: Callable[[], Any]
    stop: Callable[[], Any]
    ours: Bootstrap | None = None

    @property
    def is_ours(self) -> bool:
        return self.ours is not None


@pytest.fixture(scope="session")
def sglang_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SGLang]:
    missing = _why_not()
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    process = SGLang(tmp_path_factory.mktemp("sglang") / "log")
    yield process
    process.stop()


@pytest.fixture
def sglang(sglang_process: SGLang) -> Iterator[SGLang]:
    """SGLang's clients; what they log during a test that fails is shown with it."""
    log = sglang_process._log
    begin = log.stat().st_size if log.exists() else 0
    yield sglang_process
    if log.exists():
        with log.open(errors="replace") as lines:
            lines.seek(begin)
            print(f"--- SGLang ---\n{lines.read()[-20000:]}")


@pytest.fixture
def ours(backend: Backend, make_bootstrap: Callable[..., Bootstrap]) -> Target:
    return _ours(backend, make_bootstrap)


@pytest.fixture
def sglang_servers(sglang: SGLang) -> Iterator[Target]:
    """SGLang's own two servers, in the driver's process."""
    kv_port, engine_port = free_port(), free_port()
    running = []

    def start() -> None:
        sglang.serve(kv_port, engine_port)
        running.append(kv_port)

    def stop() -> None:
        while running:
            sglang.close(running.pop())

    yield Target(kv_port, engine_port, start, stop)
    stop()


@pytest.fixture(params=["sglang", "sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, make_bootstrap: Callable[..., Bootstrap]) -> Target:
    """Each scenario runs on SGLang's own servers too: so we know that it tells right from wrong."""
    if request.param == "sglang":
        return request.getfixturevalue("sglang_servers")
    return _ours(request.getfixturevalue(f"{request.param}_backend"), make_bootstrap)


def _ours(backend: Backend, make_bootstrap: Callable[..., Bootstrap]) -> Target:
    process = make_bootstrap(backend)
    return Target(process.kv_port, process.engine_port, process.start, process.terminate, process)


def _why_not() -> str | None:
    if importlib.util.find_spec("sglang") is None:
        return f"real-SGLang tests need it: pip install --no-deps sglang=={VERSION} (see CONTRIBUTING)"
    installed = importlib.metadata.version("sglang")
    return None if installed == VERSION else f"these tests are about SGLang {VERSION}, not {installed}"
