"""PostgreSQL's way to store a batch: everything, COMMIT included, in one round trip; rows travel as one JSON text.

psycopg turns lists into arrays element by element in Python, and Django's cursor composes statements on the client: for
a batch of sixty registrations that cost more than the rest of their way together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from django.db import DatabaseError, OperationalError, connections

from . import tables
from .failures import FencedOut, OutcomeUnknown
from .tables import Table
from .writes import Writes

STALE_TRIES = 8
DIVISION_BY_ZERO = "22012"

# Fails, and the COMMIT behind it with it, when somebody else holds the lease: no answer need be waited for.
FENCE = "SELECT 1 / (token = %s)::int FROM controlplane_lease WHERE name = 'bootstrap' FOR KEY SHARE"
# One statement, one round trip: it stores nothing when the fence has moved on.
ROOMS = """
INSERT INTO controlplane_roombinding (instance_id, room, dp, expires_ms)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::bigint[])
WHERE EXISTS (SELECT 1 FROM controlplane_trafficfence WHERE id = 1 AND token = %s FOR KEY SHARE)"""


def commit(alias: str, token: int, writes: Writes) -> int:
    """Facts, then head and events, behind the fence. The head's revision, 0 when there was no event."""
    if writes.ranks and not (writes.ordered or writes.last or writes.leases):
        return _ranks_and_events(alias, token, writes)

    def send(execute: Callable[..., Any]) -> Any:
        for sql, values in [*writes.ordered, *writes.last]:
            execute(sql, values)
        _insert(execute, tables.RANK, list(writes.ranks.values()))
        _insert(execute, tables.WORKER_LEASE, list(writes.leases.values()))
        return _append(execute, writes.events)

    head = _transaction(alias, token, send)
    return int(head.fetchone()[0]) if head is not None else 0


def append_rooms(alias: str, token: int, rooms: Sequence[tuple[Any, ...]]) -> None:
    columns = ["{" + ",".join(map(str, column)) + "}" for column in zip(*rooms, strict=True)]
    if _statement(alias, ROOMS, [*columns, token]).rowcount != len(rooms):
        raise FencedOut


def _ranks_and_events(alias: str, token: int, writes: Writes) -> int:
    ranks = _packed(tables.RANK, list(writes.ranks.values()))
    if writes.events:
        values = [token, ranks, len(writes.events), _packed_events(writes.events)]
        found = _statement(alias, tables.RANKS_AND_EVENTS, values).fetchone()
    else:
        found = _statement(alias, tables.RANKS_ALONE, [token, ranks]).fetchone()
    if found is None:
        raise FencedOut
    return int(found[0])


def _statement(alias: str, sql: str, values: Sequence[Any]) -> Any:
    """One statement, which is its own transaction. The cursor it ran on."""
    raw, wrapped = usable(alias)
    with wrapped:
        cursor = _cursor(raw)
        try:
            return cursor.execute(sql, values, prepare=True)
        except BaseException as problem:
            if raw.closed or raw.broken:
                # It commits with its end: without its answer nobody knows.
                connections[alias].close()
                raise OutcomeUnknown from problem
            raise


def _transaction(alias: str, token: int, send: Callable[[Callable[..., Any]], Any]) -> Any:
    raw, wrapped = usable(alias)

    def execute(sql: str, values: Sequence[Any] = ()) -> Any:
        return _cursor(raw).execute(sql, values, prepare=True)

    with wrapped:
        committing = False
        try:
            with raw.pipeline() as pipeline:
                _cursor(raw).execute("BEGIN")
                execute(FENCE, [token])
                last = send(execute)
                committing = True
                _cursor(raw).execute("COMMIT")
                pipeline.sync()
            return last
        except BaseException as problem:
            if raw.closed or raw.broken:
                connections[alias].close()
                if committing:
                    raise OutcomeUnknown from problem
            else:
                raw.rollback()
            if getattr(problem, "sqlstate", None) == DIVISION_BY_ZERO:
                raise FencedOut from problem
            raise


def _insert(execute: Callable[..., Any], table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        execute(table.from_json, [_packed(table, rows)])


def _append(execute: Callable[..., Any], events: Sequence[tuple[Any, ...]]) -> Any:
    """The head is taken in the statement that needs it, the last one: what holds it holds up every other writer."""
    if not events:
        return None
    return execute(tables.APPEND_JSON, [len(events), _packed_events(events)])


def _packed_events(events: Sequence[tuple[Any, ...]]) -> str:
    return _packed(tables.EVENT, [(offset, *event) for offset, event in enumerate(events, 1 - len(events))])


def _packed(table: Table, rows: Sequence[tuple[Any, ...]]) -> str:
    return msgspec.json.encode([dict(zip(table.short, row, strict=True)) for row in rows]).decode()


def usable(alias: str) -> tuple[Any, Any]:
    """This thread's connection, alive and with its bounds set, and what turns its errors into Django's."""
    connection = connections[alias]
    for left in range(STALE_TRIES, -1, -1):
        connection.ensure_connection()
        try:
            with connection.wrap_database_errors:
                _prepare(connection)
            break
        except DatabaseError:
            # The pool may hold connections that died while nobody used them.
            connection.close()
            if not left:
                raise
    return connection.connection, connection.wrap_database_errors


def _prepare(connection: Any) -> None:
    """Bounds of a recorder's connection, once: two batches in a row must fail before the client gives up, at 5 s."""
    raw = connection.connection
    if raw.closed or raw.broken:
        raise OperationalError("the connection is closed")
    if getattr(raw, "_pdcp_bounded", None) is None:
        raw.execute("SET statement_timeout = '2s'; SET lock_timeout = '1500ms'")
        raw._pdcp_bounded = True


def _cursor(raw: Any) -> Any:
    from psycopg import Cursor

    return Cursor(raw)
