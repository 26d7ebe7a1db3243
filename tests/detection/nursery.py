"""Real prefill ranks to be killed: started, frozen and killed by those who test how soon that is seen."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import Child, clean_env, freeze


class Rank(NamedTuple):
    """A process of its own, registered and listening at `port`."""

    pid: int
    port: int

    def kill9(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def freeze(self) -> None:
        freeze(self.pid)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Nursery:
    """The process that has imported SGLang, which takes seconds; its children are born in a hundredth of one."""

    def __init__(self, log: Path) -> None:
        env = clean_env(OMP_NUM_THREADS=1, SGLANG_HOST_IP="127.0.0.1", NO_PROXY="*")
        self._child = Child([sys.executable, "-m", "tests.detection.real_rank"], env=env, log=log, stdin=True)
        self._child.wait_for_line("^waiting$", timeout=90)

    def bear(self, kv_port: int, instance: str = "-") -> Rank:
        """A rank that has registered."""
        heard = len(self._child.lines)
        self._child.say(f"rank {kv_port} {instance}")
        born = self._child.wait_for_line(r"^born (\d+) (\d+)$", timeout=60, after=heard)
        return Rank(int(born[1]), int(born[2]))

    def send_forth(
        self, kv_port: int, instance: str = "-", *, shape: str = "1,1,1,1", slot: str = "0,0,0,0", page_size: int = 64
    ) -> None:
        """A rank of a launch of several, or one that will be refused: whether it registers is not waited for."""
        self._child.say(f"rank {kv_port} {instance} {shape} {slot} {page_size}")

    def close(self) -> None:
        self._child.kill9()
