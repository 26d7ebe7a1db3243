"""Real SGLang processes beside ours."""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Child, clean_env


class SGLangPeer:
    """`peer.ask("poll", room=7)` -> what tests.workers.transfer.sglang_peer answers."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-m", "tests.workers.transfer.sglang_peer"]
        env = clean_env(OMP_NUM_THREADS=1, SGLANG_HOST_IP="127.0.0.1", NO_PROXY="*")
        self._child = Child(command, env=env, log=log, stdin=True)
        self._child.wait_for_line("^READY$", timeout=110)

    def ask(self, what: str, **arguments: Any) -> Any:
        heard = len(self._child.lines)
        self._child.say(json.dumps({what: arguments}))
        answer = json.loads(self._child.wait_for_line(r"^ANSWER (.*)$", timeout=90, after=heard).group(1))
        assert "failed" not in answer, f"{what}({arguments})\n{answer['failed']}\n{self._child.log()[-3000:]}"
        return answer["said"]

    def stop(self) -> None:
        self._child.kill9()


@pytest.fixture(scope="module")
def sglang_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SGLangPeer]:
    if importlib.util.find_spec("sglang") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("these tests are about SGLang, which is not installed")
    peer = SGLangPeer(tmp_path_factory.mktemp("sglang") / "log")
    yield peer
    peer.stop()
