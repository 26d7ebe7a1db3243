"""An engine of `launching` as a test holds it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.processes import Child, clean_env


class Launched:
    """`tell(0, "register", port=1)` gives the order at once; `heard(0)` waits for its answer. `env`: what the plugin is told."""

    def __init__(self, log: Path, *ranks: dict[str, Any], hurry: float = 1.0, **env: object) -> None:
        given = {"ranks": ranks, "hurry": hurry}
        command = [sys.executable, "-m", "tests.workers.sglang_plugin.launching", json.dumps(given)]
        clean = clean_env(OMP_NUM_THREADS=1, SGLANG_HOST_IP="127.0.0.1", NO_PROXY="*", SGLANG_PLUGINS=None, **env)
        self.child = Child(command, env=clean, log=log, stdin=True)
        self._heard = [0] * len(ranks)

    def ready(self) -> Launched:
        for rank in range(len(self._heard)):
            assert "ready" in self._next(rank)
        return self

    def launched(self) -> Any:
        """What its first process says: the token it minted, and which plugins SGLang finds, with a filter and without."""
        return json.loads(self.child.wait_for_line(r"^LAUNCHED (.*)$", timeout=60)[1])

    def tell(self, rank: int, name: str, **arguments: Any) -> None:
        self.child.say(f"{rank} {json.dumps({name: arguments})}")

    def ask(self, rank: int, name: str, **arguments: Any) -> Any:
        self.tell(rank, name, **arguments)
        return self.heard(rank)

    def end(self, rank: int) -> Any:
        """Its exit code, once it has ended by itself."""
        self.child.say(f'{rank} "end"')
        return self.heard(rank)

    def heard(self, rank: int) -> Any:
        told = self._next(rank)
        assert "failed" not in told, f"{told.get('failed')}\n{self.child.log()[-3000:]}"
        return told["said"]

    def _next(self, rank: int) -> Any:
        """Answers of one rank come in their order; those of others in between are left for whoever waits for them."""
        found = self.child.wait_for_line(rf"^ANSWER {rank} (.*)$", timeout=110, after=self._heard[rank])
        self._heard[rank] = self.child.lines.index(found.group(0), self._heard[rank]) + 1
        return json.loads(found[1])

    def log(self) -> str:
        return self.child.log()

    def stop(self) -> None:
        self.child.kill9()
