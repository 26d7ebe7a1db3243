"""The fleet as the ledger tells it, one line an instance: what was wanted, who was registered, how they answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from controlplane.domain.topology import Slot
from controlplane.queries.wording import address

from .turns import short_slot

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Registered:
    """One launch: how many of its ranks were there, and of these how many answered how."""

    number: int
    role: str
    state: str
    present: int
    size: int
    contacts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Then:
    name: str
    role: str
    intent: str
    groups: tuple[tuple[str, str], ...]
    launches: tuple[Registered, ...]
    drains: tuple[tuple[str, Data], ...]
    breakers: tuple[tuple[str, str, str], ...]
    """Gateway, scope and state of those that were not closed."""

    sessions: int
    conflicts: int
    flushing: bool


def then(fleet: Data) -> list[Then]:
    """Instances by name."""
    return [_then(name, instance) for name, instance in sorted(fleet["instances"].items())]


@dataclass(frozen=True, slots=True)
class RankThen:
    """`contact`: how it answered when it was last asked."""

    launch: int
    slot: str
    address: str
    contact: str
    flags: tuple[str, ...]


def ranks_then(instance: Data) -> list[RankThen]:
    """Who was registered: whoever did not answer first, then in slot order."""
    found = [
        (row["contact"] == "up", launch["number"], tuple(map(int, slot.split("."))), row)
        for launch in instance["launches"].values()
        for slot, row in launch["rows"].items()
    ]
    return [
        RankThen(number, short_slot(Slot(*slot)), address(row["ip"], row["port"]), row["contact"], tuple(row["flags"]))
        for _, number, slot, row in sorted(found, key=lambda one: one[:3])
    ]


def _then(name: str, instance: Data) -> Then:
    launches = sorted(instance["launches"].values(), key=lambda launch: launch["role"] != "current")
    return Then(
        name,
        instance["role"],
        instance["intent"],
        tuple((f"dp{dp}", intent) for dp, intent in sorted(instance["groups"].items())),
        tuple(map(_registered, launches)),
        tuple((_scope(scope), drain) for scope, drain in sorted(instance["drains"].items())),
        tuple(
            (gateway, _scope(scope), state)
            for gateway, own in sorted(instance["breakers"].items())
            for scope, state in sorted(own.items())
        ),
        len(instance["engines"]["live"]),
        len(instance["engines"]["conflicts"]),
        instance["debt"] is not None,
    )


def _registered(launch: Data) -> Registered:
    contacts = Counter(row["contact"] for row in launch["rows"].values())
    size = prod(launch["topology"])
    state = "complete" if launch["complete"] else ("filling" if launch["role"] == "candidate" else "incomplete")
    return Registered(
        launch["number"], launch["role"], state, len(launch["rows"]), size, tuple(sorted(contacts.items()))
    )


def _scope(scope: str) -> str:
    """
    >>> _scope("all"), _scope("3")
    ('', 'dp3')
    """
    return "" if scope == "all" else f"dp{scope}"
