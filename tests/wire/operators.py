"""What operators do, done straight in a SQLite database: rows and events as the commands write them."""

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.plugin import Backend


def facts_of(backend: Backend) -> Path:
    return backend.data_dir / "controlplane.sqlite3"


def rows(backend: Backend, sql: str, *values: Any, file: str = "controlplane.sqlite3") -> list[tuple[Any, ...]]:
    """What is stored, read beside a running process."""
    with closing(sqlite3.connect(f"file:{backend.data_dir / file}?mode=ro", uri=True, timeout=5)) as connection:
        return connection.execute(sql, values).fetchall()


def add_instances(backend: Backend, *names: str, **more: Any) -> None:
    for name in names:
        add_instance(backend, name, **more)


def add_instance(
    backend: Backend,
    name: str,
    *,
    role: str = "prefill",
    own_port: int | None = None,
    host_alias: str | None = None,
) -> None:
    def work(connection: sqlite3.Connection) -> dict[str, Any]:
        connection.execute(
            "INSERT INTO controlplane_instance (name, role, intent, own_port, host_alias, created_at, next_launch,"
            " debt_hold) VALUES (?, ?, 'enabled', ?, ?, ?, 1, 0)",
            (name, role, own_port, host_alias, time.time()),
        )
        return {"name": name, "role": role, "own_port": own_port, "host_alias": host_alias}

    _with_event(backend, "instance.added", name, work)


def set_intent(backend: Backend, name: str, intent: str) -> None:
    def work(connection: sqlite3.Connection) -> dict[str, Any]:
        connection.execute("UPDATE controlplane_instance SET intent = ? WHERE name = ?", (intent, name))
        return {"name": name, "intent": intent}

    _with_event(backend, "instance.retired" if intent == "retired" else "instance.changed", name, work)


def retire_instance(backend: Backend, name: str) -> None:
    set_intent(backend, name, "retired")


def _with_event(backend: Backend, kind: str, name: str, work: Callable[[sqlite3.Connection], dict[str, Any]]) -> None:
    with closing(sqlite3.connect(facts_of(backend), timeout=5, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        data = work(connection)
        ((revision,),) = connection.execute(
            "UPDATE controlplane_ledgerhead SET revision = revision + 1 WHERE id = 1 RETURNING revision"
        ).fetchall()
        connection.execute(
            "INSERT INTO controlplane_event (revision, at, kind, instance, actor, reason, data)"
            " VALUES (?, ?, ?, ?, 'tests', '', ?)",
            (revision, time.time(), kind, name, json.dumps(data)),
        )
        connection.execute("COMMIT")
