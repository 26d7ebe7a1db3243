"""`GET /pd/v1/relay`: how this relay is, for people and for who wonders what listens on a bootstrap port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from .holding import identity_of
from .keeping import Keeping

if TYPE_CHECKING:
    from .upkeep import Upkeep

NAMED = 64


def status(keeping: Keeping, upkeep: Upkeep, worker: str, answered: Mapping[str, int]) -> bytes:
    """JSON. Ages in seconds; rooms and launches as numbers; what is in trouble as sentences."""
    link, view = keeping.link, keeping.view
    pending = sum(seat.put.pending for seat in keeping.holding.seats())
    said: dict[str, Any] = {
        "relay": worker,
        "instance": keeping.name,
        "control_plane": {
            "address": str(link.at.kv),
            "state": link.state.value,
            "for_seconds": round(link.for_seconds, 3),
            "trouble": link.trouble,
            "to_be_told": {"registrations": pending, "rooms": keeping.rooms.pending},
        },
        "health": 404 if upkeep.retired else keeping.health.status,
        "serves": None
        if view is None
        else {"topology": str(view.topology), "ranks": len(view.rows), "token": view.token},
        "same_as_control_plane": identity_of(view) == identity_of(keeping.holding.told),
        "uncopied": upkeep.uncopied,
        "draining": upkeep.telling.draining,
        "intent": {"said": upkeep.telling.intent, "seconds_ago": upkeep.telling.heard_seconds_ago},
        "launches": [_launch(keeping, held) for held in keeping.holding.launches],
        "rooms": len(keeping.rooms),
        "journal": {"bytes": keeping.journal.size, "trouble": keeping.journal.trouble},
        "answered": dict(answered),
        "told_again": upkeep.telling.told_again,
    }
    return msgspec.json.encode(said)


def exposition(keeping: Keeping, upkeep: Upkeep, answered: Mapping[str, int]) -> bytes:
    """The same in numbers, as Prometheus reads them (text format 0.0.4)."""
    link, rooms = keeping.link, keeping.rooms
    pending = sum(seat.put.pending for seat in keeping.holding.seats())
    metrics: tuple[tuple[str, str, str, dict[str, float]], ...] = (
        ("together", "gauge", "Whether the control plane is there and its word counts", {"": link.together}),
        ("serving", "gauge", "Whether a whole launch is served", {"": keeping.view is not None}),
        ("flushing", "gauge", "Whether /health is 503 until all who poll were told", {"": keeping.health.owes}),
        ("pending", "gauge", "What the control plane is still to be told", {"registrations": pending, "rooms": rooms.pending}),
        ("rooms", "gauge", "Rooms that are held", {"": len(rooms)}),
        ("rooms_dropped_total", "counter", "Rooms that went before their time: there were too many", {"": rooms.dropped}),
        ("journal_bytes", "gauge", "Length of the journal", {"": keeping.journal.size}),
        ("journal_broken", "gauge", "Whether the journal could not be written last", {"": bool(keeping.journal.trouble)}),
        ("answered_total", "counter", "Look-ups and questions, by whose answer was given", dict(answered)),
        ("told_again_total", "counter", "Registrations told to the control plane afterwards", {"": upkeep.telling.told_again}),
    )  # fmt: skip
    lines: list[str] = []
    for name, kind, meaning, values in metrics:
        lines += [f"# HELP pd_relay_{name} {meaning}", f"# TYPE pd_relay_{name} {kind}"]
        lines += [f"pd_relay_{name}{_labels(label)} {float(value):g}" for label, value in values.items()]
    return "\n".join(lines).encode() + b"\n"


def _labels(label: str) -> str:
    return f'{{of="{label}"}}' if label else ""


def _launch(keeping: Keeping, held: Any) -> dict[str, Any]:
    launch = held.launch
    return {
        "token": launch.token,
        "topology": str(launch.topology),
        "registered": len(held.seats),
        "of": launch.topology.size,
        "ranks": [
            {
                "slot": list(seat.slot),
                "address": f"{seat.said.ip}:{seat.said.port}",
                "process": seat.put.process.partition(".")[0] or None,
                "alive": keeping.alive(seat),
                "told": not seat.put.pending,
                "refused": seat.refused,
            }
            for seat in list(held.seats.values())[:NAMED]
        ],
    }
