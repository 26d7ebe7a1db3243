"""What operators do while the bootstrap process runs: the commands, in a process of their own. Run as a module, it is
that process: one call a line on stdin, one answer a line on stdout.
"""

import json
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.plugin import Backend
from tests.support.processes import Child


class Operator:
    """Adds, changes and retires instances through `controlplane.commands`."""

    def __init__(self, backend: Backend, *, log: Path) -> None:
        self._child = Child([sys.executable, "-m", __name__], env=backend.env, log=log, stdin=True)

    def add(self, name: str, **facts: Any) -> str:
        return self._do("add", name, **facts)

    def edit(self, name: str, **facts: Any) -> str:
        return self._do("edit", name, **facts)

    def retire(self, name: str) -> str:
        return self._do("retire", name)

    def close(self) -> None:
        self._child.kill9()

    def _do(self, verb: str, name: str, **facts: Any) -> str:
        heard = len(self._child.lines)
        self._child.say(json.dumps([verb, name, facts]))
        said = self._child.wait_for_line("^(done|refused) (.*)$", timeout=60, after=heard)
        assert said.group(1) == "done", said.group(2)
        return said.group(2)


def seed_instances(backend: Backend, *names: str) -> None:
    """Instances that are there before the process starts; nobody has to hear of them."""
    with closing(sqlite3.connect(backend.data_dir / "controlplane.sqlite3")) as connection:
        connection.executemany(
            "INSERT INTO controlplane_instance (name, role, intent, created_at, next_launch, debt_hold)"
            " VALUES (?, 'prefill', 'enabled', ?, 1, 0)",
            [(name, time.time()) for name in names],
        )
        connection.commit()


def rows(backend: Backend, sql: str, *values: Any, file: str = "controlplane.sqlite3") -> list[tuple[Any, ...]]:
    """What is stored, read beside a running process."""
    with closing(sqlite3.connect(f"file:{backend.data_dir / file}?mode=ro", uri=True, timeout=20)) as connection:
        return connection.execute(sql, values).fetchall()


def main() -> None:
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    from controlplane.commands import instances
    from controlplane.domain.errors import Refused

    for line in sys.stdin:
        verb, name, facts = json.loads(line)
        try:
            done = getattr(instances, verb)(name, actor="tests", reason="because a test asks", **facts)
            print("done", done.sentence, flush=True)
        except Refused as refused:
            print("refused", refused.sentence, flush=True)


if __name__ == "__main__":
    main()
