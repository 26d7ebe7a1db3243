"""Starting and ending an engine's processes (tests/workers/relay/engine.py)."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.processes import Child, clean_env

GENEROUS = 60.0


class Engine:
    """`ranks` are (process id, port) by tensor-parallel rank; a port of 0 has given up registering."""

    def __init__(self, directory: Path, at: str, *, tp: int = 1, **fields: object) -> None:
        words = [f"{name}={value}" for name, value in fields.items()]
        command = [sys.executable, "-m", "tests.workers.relay.engine", at, str(tp), *words]
        self.child = Child(command, env=clean_env(), log=directory / f"engine-{id(self)}.log", stdin=True)
        ready = self.child.wait_for_line(r"^engine ready (.*)$", timeout=GENEROUS)
        self.ranks = [(int(pid), int(port)) for pid, port in (word.split(":") for word in ready[1].split())]

    @property
    def ports(self) -> list[int]:
        return [port for _, port in self.ranks]

    def kill_rank(self, tp: int) -> None:
        self.child.say(f"tp{tp}")

    def end(self) -> None:
        """All of its processes."""
        if self.child.exit_code is None:
            self.child.terminate()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
