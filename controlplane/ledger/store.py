"""One transaction a batch, on a connection and a thread of its own: fence, facts, then head and events.

Runs in a worker thread. SQLite and PostgreSQL differ in three statements; everything else is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections

from .writes import Writes

RANK_COLUMNS = (
    "instance_id launch dp cp tp pp ip port http_port first_at seen_at again_at contact greeted adopted flags"
    " verified_term left_at left_reason"
).split()
RANK_TYPES = (
    "bigint int int int int int text int int float8 float8 float8 text bool bool text bigint float8 text"
).split()
RANK_KEY = ("instance_id", "launch", "dp", "cp", "tp", "pp")
EVENT_COLUMNS = "revision at kind instance actor reason data".split()
EVENT_TYPES = "bigint float8 text text text text text".split()
LEASE_COLUMNS = "worker instance_id token slots seen_at expires_at".split()
LEASE_TYPES = "text bigint text text float8 float8".split()
ROOM_COLUMNS = "instance_id room dp expires_ms".split()
ROOM_TYPES = "bigint bigint int bigint".split()
COLLISION_COLUMNS = "instance_id room before after at".split()
COLLISION_TYPES = "bigint bigint int int float8".split()

ADVANCE = "UPDATE controlplane_ledgerhead SET revision = revision + %s WHERE id = 1 RETURNING revision"
RETRYABLE = ("40001", "40P01", "55P03")


class FencedOut(Exception):
    """Another process holds the lease now: nothing was written, nothing may be answered."""


class OutcomeUnknown(Exception):
    """The connection broke while committing: the batch may or may not be stored."""


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
        for attempt in range(3):
            try:
                return self._once(token, work)
            except OperationalError as problem:
                code = getattr(problem.__cause__, "sqlstate", None)
                if code not in RETRYABLE or attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def _once(self, token: int, work: Callable[[Any], Any]) -> Any:
        connection = connections[self.alias]
        connection.ensure_connection()
        if self._prepared is not connection.connection:
            self._prepared = connection.connection
            if not self.is_postgres:
                # Checkpoints run beside commits, not inside them: they were spikes of 10 to 35 ms.
                connection.connection.execute("PRAGMA wal_autocheckpoint = 0")
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

    def insert(
        self,
        cursor: Any,
        table: str,
        columns: Sequence[str],
        types: Sequence[str],
        rows: Sequence[tuple[Any, ...]],
        *,
        key: Sequence[str] = (),
    ) -> None:
        """Insert all rows with one statement; with `key`, overwrite the rows that are there. Keys must be distinct."""
        if not rows:
            return
        names = ", ".join(columns)
        conflict = ""
        if key:
            updates = ", ".join(f"{c} = excluded.{c}" for c in columns if c not in key)
            conflict = f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {updates}"
        if self.is_postgres:
            arrays = ", ".join(f"%s::{kind}[]" for kind in types)
            sql = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}){conflict}"
            cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)])
        else:
            marks = ", ".join(["?"] * len(columns))
            cursor.cursor.connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks}){conflict}", rows)


def _rollback(connection: Any) -> None:
    try:
        connection.connection.rollback()
    except Exception:
        connection.close()


def _commit(connection: Any, cursor: Any) -> None:
    try:
        cursor.execute("COMMIT")
    except DatabaseError as problem:
        # A lock conflict is a clear no; a lost connection is not an answer.
        if connection.vendor == "postgresql" and getattr(problem.__cause__, "sqlstate", None) is None:
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
        return int(self.transact(token, lambda cursor: self._write(cursor, writes)))

    def _write(self, cursor: Any, writes: Writes) -> int:
        for sql, values in writes.ordered:
            cursor.execute(sql, values)
        ranks = list(writes.ranks.values())
        self.insert(cursor, "controlplane_rank", RANK_COLUMNS, RANK_TYPES, ranks, key=RANK_KEY)
        leases = list(writes.leases.values())
        self.insert(cursor, "controlplane_workerlease", LEASE_COLUMNS, LEASE_TYPES, leases, key=("worker",))
        count = len(writes.events)
        if not count:
            return 0
        cursor.execute(ADVANCE, [count])
        head = int(cursor.fetchone()[0])
        first = head - count + 1
        events = [(first + offset, *event) for offset, event in enumerate(writes.events)]
        self.insert(cursor, "controlplane_event", EVENT_COLUMNS, EVENT_TYPES, events)
        return head


class RoomStore(Writer):
    """Room bindings, appended to a journal, and the collisions seen."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias, "SELECT token FROM controlplane_trafficfence WHERE id = 1")

    def append(self, token: int, rooms: list[tuple[Any, ...]], collisions: list[tuple[Any, ...]]) -> None:
        def write(cursor: Any) -> None:
            self.insert(cursor, "controlplane_roombinding", ROOM_COLUMNS, ROOM_TYPES, rooms)
            self.insert(cursor, "controlplane_roomcollision", COLLISION_COLUMNS, COLLISION_TYPES, collisions)

        self.transact(token, write)
