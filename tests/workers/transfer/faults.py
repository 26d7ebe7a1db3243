"""What the fault tests have in common: peers as processes, what happens to them, and what must not be left behind."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from tests.support.processes import Child, clean_env
from workers.transfer.pool import shape_of

DTYPE = torch.float16
SHAPE = shape_of(layers=4, heads=2, head_dim=64, dtype=DTYPE, page_size=16)
PAGES = 8
TOKENS = PAGES * SHAPE.page_size
KINDS = ["stopped", "killed", "restarted", "silent"]
BOUND_SECONDS = 10.0


class PeerProcess:
    """A peer that can be started again at its port."""

    def __init__(self, module: str, log: Path, *arguments: object) -> None:
        self._command = [sys.executable, "-m", f"tests.workers.transfer.{module}", *map(str, arguments)]
        self._log = log
        self.start()

    def start(self) -> None:
        self.child = Child(self._command, env=clean_env(OMP_NUM_THREADS=1), log=self._log, stdin=True)
        self.said = self.child.wait_for_line("^READY (.*)$", timeout=100).group(1).split()

    def suffer(self, kind: str) -> None:
        if kind == "stopped":
            for process in self._all():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
        elif kind == "killed":
            self.kill()
        elif kind == "restarted":
            self.kill()
            self.start()

    def recover(self, kind: str) -> None:
        if kind == "stopped":
            for process in self._all():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()
        elif kind == "killed":
            self.start()

    def kill(self) -> None:
        below = psutil.Process(self.child.pid).children(recursive=True)
        self.child.kill9()
        # Mooncake's process ends with its owner, by itself and soon.
        _, alive = psutil.wait_procs(below, timeout=20)
        assert not alive, f"{alive} outlived its owner"

    def _all(self) -> list[psutil.Process]:
        own = psutil.Process(self.child.pid)
        return [own, *own.children(recursive=True)]


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """Accepts connections (the kernel does), and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


class Clock:
    """How long the longest call took."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.what = ""

    @contextlib.contextmanager
    def call(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            if took > self.longest:
                self.longest, self.what = took, what


@contextlib.contextmanager
def nothing_left_behind() -> Iterator[None]:
    """No child process, no shared memory, no descriptor more than before."""
    before = (children(), shared_memory(), descriptors())
    yield
    end = time.monotonic() + 20
    while (after := (children(), shared_memory(), descriptors()))[:2] != before[:2] or after[2] > before[2] + SLACK:
        assert time.monotonic() < end, f"before {before}, after {after}"
        time.sleep(0.05)


SLACK = 4
"""Descriptors that libraries open once, at first use."""


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def shared_memory() -> int:
    """How many mappings of this process others could share. Segments have no name, so who has none mapped leaves none."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return sum("memfd:" in line or "/dev/shm/" in line for line in lines)


def descriptors() -> int:
    return psutil.Process().num_fds()


def moments(seed: int, rounds: int) -> list[tuple[str, float]]:
    """What happens, and after how many seconds of traffic; every kind comes before one comes again."""
    rng = random.Random(seed)
    kinds = [kind for _ in range(-(-rounds // len(KINDS))) for kind in rng.sample(KINDS, len(KINDS))]
    return [(kind, rng.uniform(0.0, 0.3)) for kind in kinds[:rounds]]
