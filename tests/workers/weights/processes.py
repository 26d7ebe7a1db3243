"""`python -m workers.weights` as processes of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from tests.support.processes import Bootstrap, Child, clean_env

SIZE = ("--layers", "6", "--hidden", "512")
"""A sample of 3 MB."""


class Seeding:
    """A seed: started at once, waited for by `ready`."""

    def __init__(self, directory: Bootstrap, log: Path, instance: str, *words: str, backend: str = "mooncake") -> None:
        at = f"127.0.0.1:{directory.engine_port}"
        self.instance, self.log = instance, log
        self.words = ("seed", "--engine-info", at, "--instance", instance, "--backend", backend, *SIZE, *words)
        self.start()

    def start(self) -> None:
        self.child = command(self.log, *self.words)

    def ready(self) -> Seeding:
        said = self.child.wait_for_line(r"^seed ready (\S+) ranks=(\d+) bytes=(\d+) content=(\S+)$", timeout=100)
        self.content = said[4]
        return self

    def kill(self) -> None:
        if self.child.exit_code is not None:
            return
        below = psutil.Process(self.child.pid).children(recursive=True)
        self.child.kill9()
        # Mooncake's process ends with its owner, by itself and soon.
        _, alive = psutil.wait_procs(below, timeout=20)
        assert not alive, f"{alive} outlived its owner"


def command(log: Path, *words: str) -> Child:
    return Child([sys.executable, "-m", "workers.weights", *words], env=clean_env(OMP_NUM_THREADS=1), log=log)
