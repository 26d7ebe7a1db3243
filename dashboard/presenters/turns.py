"""What an event turned, from what into what, as far as the event itself says; and what it is about, with a link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any
from urllib.parse import quote

from controlplane.domain.topology import Slot
from controlplane.queries.events import CONTACTS, EventRow
from controlplane.queries.wording import address, counted, slot_key

from .states import STATES, state_of

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a change. `word` is a state of `STATES`; blank for a plain `text`, as an address or a port."""

    word: str
    text: str

    @classmethod
    def of(cls, word: Any) -> Side:
        known = str(word) in STATES
        return cls(str(word) if known else "", state_of(str(word)).word)


@dataclass(frozen=True, slots=True)
class Turn:
    """`before` and `after`: None is what the event does not say. `why`: blank when the whole sentence must say it."""

    before: Side | None
    after: Side | None
    why: str = ""


def turn_of(event: EventRow) -> Turn:
    """
    >>> event = EventRow(7, 0.0, "intent.changed", "p", "anna", "", {"dp": 1, "before": "enabled", "after": "cordoned"})
    >>> turn_of(event).after
    Side(word='cordoned', text='cordoned')
    """
    tell = TURNS.get(event.kind)
    try:
        return tell(event.data) if tell is not None else Turn(None, None)
    except (KeyError, TypeError, ValueError):
        # Written by another version of ours: the sentence shows it as it is stored.
        return Turn(None, None)


def subject_of(event: EventRow) -> tuple[str, str]:
    """What the event is about, in words, and the page about that; blank when there is none."""
    data, name = event.data, event.instance
    if event.kind.startswith("token."):
        return f"token {data.get('name', '')}", "/tokens/"
    if event.kind.startswith("alarm.") and isinstance(data.get("alarm"), int):
        return f"alarm {data['alarm']}", f"/alarms/{data['alarm']}/"
    if not name:
        for what in ("router", "gateway"):
            if data.get(what):
                return f"{what} {data[what]}", f"/{what}s/{quote(str(data[what]), safe='')}/"
        return "", ""
    page = f"/instances/{quote(name, safe='')}/"
    slot = _slot(data)
    if event.kind.startswith("drain.") and isinstance(data.get("drain"), int):
        page = f"/drains/{data['drain']}/"
    elif slot is not None:
        page += f"?rank={slot_key(slot)}"
    return " ".join([name, *_within(event, slot)]), page


def _within(event: EventRow, slot: Slot | None) -> list[str]:
    data = event.data
    said = []
    if data.get("launch") and not event.kind.startswith("drain."):
        said.append(f"launch {data['launch']}")
    if slot is not None:
        said.append(short_slot(slot))
    elif isinstance(data.get("dp"), int):
        said.append(f"dp{data['dp']}")
    elif isinstance(data.get("rank"), int):
        said.append(f"rank {data['rank']}")
    return said


def short_slot(slot: Slot) -> str:
    """
    >>> short_slot(Slot(0, 0, 3, 1)), short_slot(Slot(0, 1, 3, 0))
    ('dp0 tp3 pp1', 'dp0 cp1 tp3 pp0')
    """
    cp = f" cp{slot.cp}" if slot.cp else ""
    return f"dp{slot.dp}{cp} tp{slot.tp} pp{slot.pp}"


def _slot(data: Data) -> Slot | None:
    axes = data.get("slot")
    return Slot(*axes) if isinstance(axes, list) and len(axes) == 4 else None


def _between(data: Data) -> Turn:
    return Turn(Side.of(data["before"]), Side.of(data["after"]), data.get("reason") or "")


def _to(word: str, before: str | None = None) -> Callable[[Data], Turn]:
    known = Side.of(before) if before else None
    return lambda data: Turn(known, Side.of(word), data.get("reason") or data.get("why") or "")


def _registered(data: Data) -> Turn:
    here, before = address(data["ip"], data["port"]), data.get("previous")
    if before and before != here:
        return Turn(Side("", before), Side("", here), "moved to another address")
    return Turn(Side.of("registered" if before else "missing"), Side.of("registered"), f"at {here}")


def _health(data: Data) -> Turn:
    sides = (Side.of("flushing"), Side.of("serving"))
    before, after = sides if data["status"] == 200 else sides[::-1]
    return Turn(before, after, data["reason"])


def _changed(data: Data) -> Turn:
    before = data.get("before") or {}
    moved = [key for key, old in before.items() if key in data and data[key] != old]
    if len(moved) != 1 or data.get("engine_key_changed"):
        return Turn(None, None)
    key = moved[0]
    return Turn(Side("", _text(before[key])), Side("", _text(data[key])), key.replace("_", " "))


def _text(value: Any) -> str:
    return "none" if value in (None, "") else str(value)


def _progressed(data: Data) -> Turn:
    return Turn(Side.of(data["before"]), Side.of(data["after"]), "; ".join(data["blockers"]))


TURNS: Mapping[str, Callable[[Data], Turn]] = {
    "launch.opened": lambda data: Turn(
        None, Side.of(data["role"]), f"{counted(prod(data['topology']), 'rank')} expected"
    ),
    "launch.completed": _to("complete", "filling"),
    "launch.promoted": lambda data: Turn(Side.of("candidate"), Side.of("current")),
    "launch.stepped_back": _to("candidate", "current"),
    "launch.dropped": _to("ended"),
    "rank.registered": _registered,
    "rank.left": _to("left", "registered"),
    "rank.probed": lambda data: Turn(None, Side.of(data["contact"]), f"it {CONTACTS[data['contact']]}"),
    "rank.claimed": _to("conflict"),
    "rank.came_late": _to("fenced"),
    "health.turned": _health,
    "instance.added": _to("enabled"),
    "instance.changed": _changed,
    "instance.retired": _to("retired"),
    "intent.changed": _between,
    "drain.started": _to("waiting"),
    "drain.progressed": _progressed,
    "drain.ended": lambda data: Turn(None, Side.of(data["result"])),
    "breaker.turned": _between,
    "gateway.joined": _to("present"),
    "gateway.left": _to("left", "present"),
    "router.added": _to("present"),
    "router.removed": _to("left", "present"),
    "router.worker_added": _to("present"),
    "router.worker_removed": _to("left", "present"),
    "request.made": _to("waiting"),
    "request.answered": lambda data: Turn(
        Side.of("waiting"), Side.of("done" if data["granted"] else "refused"), data["answer"]
    ),
    "registration.refused": _to("refused"),
    "listener.opened": _to("live"),
    "listener.failed": _to("failed"),
    "engine.published": _to("live"),
    "engine.conflicted": _to("conflict"),
    "engine.retired": _to("ended"),
    "engine.turned": lambda data: Turn(Side.of(data["before"]), Side.of(data["state"]), data["sentence"]),
    "token.revoked": _to("retired"),
    "alarm.raised": lambda data: Turn(None, Side.of(data["severity"])),
    "alarm.acknowledged": lambda data: Turn(Side.of(data["severity"]), Side.of("acknowledged")),
    "alarm.resolved": lambda data: Turn(Side.of(data["severity"]), Side.of("resolved")),
}
