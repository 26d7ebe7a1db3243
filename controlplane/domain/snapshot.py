"""One instance as JSON, and how each event changes that: what readers of the ledger hold, without our memory.

Left out is what changes without an event: ages, last seen, when somebody was probed, what a claimant's address answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .directory import Directory
from .engines import EngineEntry, EngineTable
from .events import facts_data, row_data
from .launch import Launch, Row
from .topology import Slot

Snapshot = dict[str, Any]
Data = Mapping[str, Any]

CLAIM_KEYS = ("ip", "port", "http_port", "first_at", "flags")
ROW_KEYS = (*CLAIM_KEYS, "contact", "greeted", "adopted")
ENGINE_KEYS = ("session", "epoch", "digest", "tensors", "total_bytes", "old_style")


def take(directory: Directory, engines: EngineTable | None = None) -> Snapshot:
    """Everything about one instance that events report. Launches by number, rows by slot "dp.cp.tp.pp"."""
    table = engines or EngineTable()
    debt = directory.debt
    return {
        "launches": {
            str(launch.number): _launch(launch, "current" if launch is directory.current else "candidate")
            for launch in directory.launches()
        },
        "debt": {"since": debt.since, "hold": debt.hold} if debt else None,
        "engines": {
            "live": {str(rank): _engine(entry) for rank, entry in table.live.items()},
            "conflicts": {str(rank): _engine(entry) for rank, entry in table.conflicts.items()},
        },
    }


def apply(snapshot: Snapshot, kind: str, data: Data) -> Snapshot:
    """The snapshot after one event, given as the ledger stores it. The old snapshot stays as it was.

    Events that are not about launches or sessions (an operator's request, say) change nothing here.
    """
    follow = FOLLOW.get(kind)
    return snapshot if follow is None else {**snapshot, **follow(snapshot, data)}


def slot_key(slot: Slot | list[int]) -> str:
    """
    >>> slot_key([0, 0, 3, 1])
    '0.0.3.1'
    """
    return ".".join(map(str, slot))


def _launch(launch: Launch, role: str) -> dict[str, Any]:
    return {
        "number": launch.number,
        "role": role,
        "token": launch.token,
        "topology": list(launch.topology.axes()),
        "facts": facts_data(launch.facts),
        "opened_at": launch.opened_at,
        "complete": launch.complete,
        "served": launch.served,
        "unchecked": launch.unchecked,
        "rows": {slot_key(slot): _picked(row, ROW_KEYS) for slot, row in launch.rows.items()},
        "claims": {slot_key(slot): _picked(row, CLAIM_KEYS) for slot, row in launch.claims.items()},
    }


def _picked(row: Row, keys: tuple[str, ...]) -> dict[str, Any]:
    data = row_data(row)
    return {key: data[key] for key in keys}


def _engine(entry: EngineEntry) -> dict[str, Any]:
    return {key: getattr(entry, key) for key in ENGINE_KEYS}


def _with_launch(snapshot: Snapshot, number: int, **changes: Any) -> Snapshot:
    launch = {**snapshot["launches"][str(number)], **changes}
    return {"launches": {**snapshot["launches"], str(number): launch}}


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in mapping.items() if k != key}


def _opened(snapshot: Snapshot, data: Data) -> Snapshot:
    launch = {
        "number": data["launch"],
        "role": data["role"],
        "token": data["token"],
        "topology": list(data["topology"]),
        "facts": dict(data["facts"]),
        "opened_at": data["at"],
        "complete": False,
        "served": False,
        "unchecked": False,
        "rows": {},
        "claims": {},
    }
    return {"launches": {**snapshot["launches"], str(data["launch"]): launch}}


def _facts_filled(snapshot: Snapshot, data: Data) -> Snapshot:
    return _with_launch(snapshot, data["launch"], facts=dict(data["facts"]))


def _registered(snapshot: Snapshot, data: Data) -> Snapshot:
    launch, slot = snapshot["launches"][str(data["launch"])], slot_key(data["slot"])
    rows = {**launch["rows"], slot: {key: data[key] for key in ROW_KEYS}}
    # The same address again changes what is known of a rank, not who is in the launch.
    if data["previous"] == f"{data['ip']}:{data['port']}":
        return _with_launch(snapshot, data["launch"], rows=rows)
    claims = _without(launch["claims"], slot)
    return _with_launch(snapshot, data["launch"], rows=rows, claims=claims, complete=False)


def _left(snapshot: Snapshot, data: Data) -> Snapshot:
    rows = _without(snapshot["launches"][str(data["launch"])]["rows"], slot_key(data["slot"]))
    return _with_launch(snapshot, data["launch"], rows=rows, complete=False)


def _probed(snapshot: Snapshot, data: Data) -> Snapshot:
    rows, slot = snapshot["launches"][str(data["launch"])]["rows"], slot_key(data["slot"])
    row = {**rows[slot], "contact": data["contact"], "greeted": data["greeted"]}
    if data["contact"] == "up":
        row["adopted"] = False
    return _with_launch(snapshot, data["launch"], rows={**rows, slot: row})


def _claimed(snapshot: Snapshot, data: Data) -> Snapshot:
    claims = snapshot["launches"][str(data["launch"])]["claims"]
    claim = {key: data[key] for key in CLAIM_KEYS}
    return _with_launch(snapshot, data["launch"], claims={**claims, slot_key(data["slot"]): claim})


def _came_late(snapshot: Snapshot, data: Data) -> Snapshot:
    return {}


def _completed(snapshot: Snapshot, data: Data) -> Snapshot:
    return _with_launch(snapshot, data["launch"], complete=True, served=True)


def _promoted(snapshot: Snapshot, data: Data) -> Snapshot:
    changes: dict[str, Any] = {"role": "current"}
    if data["complete"]:
        changes |= {"complete": True, "served": True, "unchecked": data["unchecked"]}
    promoted = _with_launch(snapshot, data["launch"], **changes)
    return {"launches": _without(promoted["launches"], str(data["replaced"]))}


def _stepped_back(snapshot: Snapshot, data: Data) -> Snapshot:
    return _with_launch(snapshot, data["launch"], role="candidate")


def _dropped(snapshot: Snapshot, data: Data) -> Snapshot:
    return {"launches": _without(snapshot["launches"], str(data["launch"]))}


def _health_turned(snapshot: Snapshot, data: Data) -> Snapshot:
    return {"debt": None if data["status"] == 200 else {"since": data["since"], "hold": data["hold"]}}


def _engine_published(snapshot: Snapshot, data: Data) -> Snapshot:
    engines, rank = snapshot["engines"], str(data["rank"])
    entry = {key: data[key] for key in ENGINE_KEYS}
    conflicts = engines["conflicts"]
    if conflicts.get(rank, {}).get("session") == data["session"]:
        conflicts = _without(conflicts, rank)
    return {"engines": {"live": {**engines["live"], rank: entry}, "conflicts": conflicts}}


def _engine_conflicted(snapshot: Snapshot, data: Data) -> Snapshot:
    engines = snapshot["engines"]
    entry = {key: data[key] for key in ENGINE_KEYS}
    return {"engines": {**engines, "conflicts": {**engines["conflicts"], str(data["rank"]): entry}}}


def _engine_retired(snapshot: Snapshot, data: Data) -> Snapshot:
    rank, epoch = str(data["rank"]), data["epoch"]
    return {
        "engines": {
            kind: {r: e for r, e in entries.items() if (r, e["epoch"]) != (rank, epoch)}
            for kind, entries in snapshot["engines"].items()
        }
    }


FOLLOW: Mapping[str, Callable[[Snapshot, Data], Snapshot]] = {
    "launch.opened": _opened,
    "launch.facts_filled": _facts_filled,
    "launch.completed": _completed,
    "launch.promoted": _promoted,
    "launch.stepped_back": _stepped_back,
    "launch.dropped": _dropped,
    "rank.registered": _registered,
    "rank.left": _left,
    "rank.probed": _probed,
    "rank.claimed": _claimed,
    "rank.came_late": _came_late,
    "health.turned": _health_turned,
    "engine.published": _engine_published,
    "engine.conflicted": _engine_conflicted,
    "engine.retired": _engine_retired,
}
"""What a reader does on each kind of event: from the snapshot and the event's data to the parts that change."""
