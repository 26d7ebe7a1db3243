"""The tables that are written in bulk, and the one statement a batch needs for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Columns with their PostgreSQL types, in the order of the rows. With a `key`, rows that are there are overwritten."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    sqlite: str = field(init=False)
    from_json: str = field(init=False)
    short: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        into = f"INSERT INTO {self.name} ({', '.join(self.columns)})"
        updates = ", ".join(f"{c} = excluded.{c}" for c in self.columns if c not in self.key)
        conflict = f" ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {updates}" if self.key else ""
        marks = ", ".join("?" * len(self.columns))
        short = tuple(f"c{n}" for n in range(len(self.columns)))
        object.__setattr__(self, "short", short)
        object.__setattr__(self, "sqlite", f"{into} VALUES ({marks}){conflict}")
        object.__setattr__(
            self, "from_json", f"{into} SELECT {', '.join(short)} FROM {self.recordset(short)}{conflict}"
        )

    def recordset(self, short: tuple[str, ...]) -> str:
        """The rows of one JSON text, their columns under short names that repeat in every row."""
        typed = ", ".join(f"{name} {kind}" for name, kind in zip(short, self.columns.values(), strict=True))
        return f"json_to_recordset(%s::json) AS given({typed})"


RANK = Table(
    "controlplane_rank",
    {
        "instance_id": "bigint",
        "launch": "int",
        "dp": "int",
        "cp": "int",
        "tp": "int",
        "pp": "int",
        "ip": "text",
        "port": "int",
        "http_port": "int",
        "first_at": "float8",
        "seen_at": "float8",
        "again_at": "float8",
        "contact": "text",
        "greeted": "bool",
        "adopted": "bool",
        "flags": "text",
        "verified_term": "bigint",
        "left_at": "float8",
        "left_reason": "text",
    },
    key=("instance_id", "launch", "dp", "cp", "tp", "pp"),
)
EVENT = Table(
    "controlplane_event",
    {
        "revision": "bigint",
        "at": "float8",
        "kind": "text",
        "instance": "text",
        "actor": "text",
        "reason": "text",
        "data": "text",
    },
)
WORKER_LEASE = Table(
    "controlplane_workerlease",
    {
        "worker": "text",
        "instance_id": "bigint",
        "token": "text",
        "slots": "text",
        "seen_at": "float8",
        "expires_at": "float8",
        "late_since": "float8",
    },
    key=("worker",),
)
ROOM = Table(
    "controlplane_roombinding", {"instance_id": "bigint", "room": "bigint", "dp": "int", "expires_ms": "bigint"}
)
COLLISION = Table(
    "controlplane_roomcollision",
    {"instance_id": "bigint", "room": "bigint", "before": "int", "after": "int", "at": "float8"},
)
REUSE = Table(
    "controlplane_roomreuse",
    {
        "instance_id": "bigint",
        "room": "bigint",
        "before": "int",
        "after": "int",
        "over": "text",
        "expired_at": "float8",
        "at": "float8",
    },
)
LOOKUP = Table(
    "controlplane_roomlookup",
    {"instance_id": "bigint", "room": "bigint", "asked_at": "float8", "asked_by": "text", "answered_at": "float8"},
)
SAMPLE = Table(
    "controlplane_sample",
    {
        "at": "float8",
        "seconds": "float8",
        "registrations": "int",
        "lookups": "int",
        "bindings": "int",
        "collisions": "int",
        "refusals": "int",
        "rooms": "int",
        "probes": "int",
        "unanswered": "int",
        "probe_p50_ms": "float8",
        "probe_p99_ms": "float8",
    },
)

# Taking the head and using it are one statement; the events carry how far they are behind the new head.
APPEND_JSON = f"""
WITH head AS (UPDATE controlplane_ledgerhead SET revision = revision + %s WHERE id = 1 RETURNING revision),
 stored AS (
  INSERT INTO {EVENT.name} ({", ".join(EVENT.columns)})
  SELECT head.revision + c0, {", ".join(EVENT.short[1:])} FROM head, {EVENT.recordset(EVENT.short)})
SELECT revision FROM head"""

# What most batches are, ranks and their events, as one statement that is its own transaction: a third of the
# processor time of the same things said one after another. It stores nothing, and answers nothing, when fenced out.
FENCED = """
WITH fence AS MATERIALIZED (SELECT FROM controlplane_lease WHERE name = 'bootstrap' AND token = %s FOR KEY SHARE)"""
RANKS_ALONE = f"""{FENCED},
 ranks AS ({RANK.from_json.replace(" ON CONFLICT", ", fence ON CONFLICT")})
SELECT 0 FROM fence"""
RANKS_AND_EVENTS = f"""{FENCED},
 ranks AS ({RANK.from_json.replace(" ON CONFLICT", ", fence ON CONFLICT")}),
 head AS (UPDATE controlplane_ledgerhead SET revision = revision + %s FROM fence WHERE id = 1 RETURNING revision),
 stored AS (
  INSERT INTO {EVENT.name} ({", ".join(EVENT.columns)})
  SELECT head.revision + c0, {", ".join(EVENT.short[1:])} FROM head, {EVENT.recordset(EVENT.short)})
SELECT revision FROM head"""
