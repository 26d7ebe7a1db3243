"""One transaction a batch, on a connection and a thread of its own: fence, facts, then head and events.

Runs in a worker thread. SQLite's way is here; PostgreSQL takes `pipeline` for its batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from django.db import DatabaseError, InterfaceError, OperationalError, connections

from . import pipeline, tables
from .failures import FencedOut, OutcomeUnknown, tried_again
from .tables import Table
from .writes import Writes

ADVANCE = "UPDATE controlplane_ledgerhead SET revision = revision + %s WHERE id = 1 RETURNING revision"


class Writer:
    """A connection of one alias, used by one thread only."""

    def __init__(self, alias: str, fence_sql: str) -> None:
        self.alias = alias
        self._fence_sql = fence_sql
        self._prepared: Any = None

    @property
    def is_postgres(self) -> bool:
        return connections[self.alias].vendor == "postgresql"

    def transact(self, token: int, work: Callable[[Any], Any]) -> Any:
        """Run `work(cursor)` in one transaction that first proves the lease. Serialisation failures are tried again."""
        return tried_again(lambda: self._once(token, work))

    def _once(self, token: int, work: Callable[[Any], Any]) -> Any:
        connection = self._connection()
        try:
            with connection.cursor() as cursor:
                cursor.execute("BEGIN IMMEDIATE" if not self.is_postgres else "BEGIN")
                try:
                    cursor.execute(self._fence_sql + (" FOR KEY SHARE" if self.is_postgres else ""))
                    if cursor.fetchone() != (token,):
                        raise FencedOut
                    result = work(cursor)
                except BaseException:
                    _rollback(connection)
                    raise
                _commit(connection, cursor)
                return result
        except (InterfaceError, OperationalError):
            if self.is_postgres:
                connection.close()
            raise

    def _connection(self) -> Any:
        connection = connections[self.alias]
        if self.is_postgres:
            pipeline.usable(self.alias)
            return connection
        connection.ensure_connection()
        if self._prepared is not connection.connection:
            self._prepared = connection.connection
            # Two batches in a row must fail before the client gives up, at 5 s.
            connection.connection.execute("PRAGMA busy_timeout = 1500")
            # Checkpoints run beside commits, not inside them: they were spikes of 10 to 35 ms.
            connection.connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection


def _rollback(connection: Any) -> None:
    try:
        connection.connection.rollback()
    except Exception:
        connection.close()


def _commit(connection: Any, cursor: Any) -> None:
    try:
        cursor.execute("COMMIT")
    except DatabaseError as problem:
        # A lock conflict is a clear no; a lost connection, or a server that is going down, is not an answer.
        state = getattr(problem.__cause__, "sqlstate", None) or ""
        if connection.vendor == "postgresql" and state[:2] in ("", "08", "57"):
            connection.close()
            raise OutcomeUnknown from problem
        _rollback(connection)
        raise


class FactStore(Writer):
    """Facts and their events."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias, "SELECT token FROM controlplane_lease WHERE name = 'bootstrap'")

    def commit(self, token: int, writes: Writes) -> int:
        """Store a batch. The head's revision afterwards; 0 when there was no event."""
        if self.is_postgres:
            return tried_again(lambda: pipeline.commit(self.alias, token, writes))
        return int(self.transact(token, lambda cursor: _write(cursor, writes)))


class RoomStore(Writer):
    """Room bindings, appended to a journal, what was seen beside them, and samples of what went on."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias, "SELECT token FROM controlplane_trafficfence WHERE id = 1")

    def append(
        self,
        token: int,
        rooms: list[tuple[Any, ...]],
        collisions: list[tuple[Any, ...]],
        reuses: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        if self.is_postgres and not collisions and not reuses:
            tried_again(lambda: pipeline.append_rooms(self.alias, token, rooms))
        else:
            self.transact(token, lambda cursor: _write_rooms(cursor, rooms, collisions, reuses))

    def keep_sample(self, token: int, sample: tuple[Any, ...]) -> None:
        self.transact(token, lambda cursor: _insert(cursor, tables.SAMPLE, [sample]))

    def keep_lookups(self, token: int, rows: Sequence[tuple[Any, ...]]) -> None:
        self.transact(token, lambda cursor: _insert(cursor, tables.LOOKUP, rows))


def _write(cursor: Any, writes: Writes) -> int:
    for sql, values in [*writes.ordered, *writes.last]:
        cursor.execute(sql, values)
    _insert(cursor, tables.RANK, list(writes.ranks.values()))
    _insert(cursor, tables.WORKER_LEASE, list(writes.leases.values()))
    count = len(writes.events)
    if not count:
        return 0
    cursor.execute(ADVANCE, [count])
    head = int(cursor.fetchone()[0])
    first = head - count + 1
    _insert(cursor, tables.EVENT, [(first + offset, *event) for offset, event in enumerate(writes.events)])
    return head


def _write_rooms(
    cursor: Any, rooms: list[tuple[Any, ...]], collisions: list[tuple[Any, ...]], reuses: Sequence[tuple[Any, ...]]
) -> None:
    _insert(cursor, tables.ROOM, rooms)
    _insert(cursor, tables.COLLISION, collisions)
    _insert(cursor, tables.REUSE, reuses)


def _insert(cursor: Any, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    if not rows:
        return
    if cursor.db.vendor == "postgresql":
        packed = msgspec.json.encode([dict(zip(table.short, row, strict=True)) for row in rows]).decode()
        cursor.execute(table.from_json, [packed])
    else:
        cursor.cursor.connection.executemany(table.sqlite, rows)
