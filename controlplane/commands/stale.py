"""Compare-and-set on what operators edit: a version that has passed is refused with what is different now."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.models import Event, Instance

KINDS = ("instance.added", "instance.changed", "instance.retired", "intent.changed")
FIELDS = ("own_port", "host_alias", "engine_url", "observed_url", "observed_engine_info_url")
LOOKED_AT = 100
"""How many of the newest events are read for the difference."""

Difference = dict[str, dict[str, Any]]


class Stale(Refused):
    """Somebody was faster. `difference`: what the caller believed (where known) and what is true now."""

    def __init__(self, sentence: str, difference: Difference) -> None:
        super().__init__(sentence, code="stale")
        self.difference = difference

    @classmethod
    def of(cls, instance: Instance, expected: int) -> Stale:
        if not 0 < expected <= instance.version:
            named = expected if expected > 0 else None
            return cls(
                f"{instance.name} is at version {instance.version}, and never was at the one that was named; nothing was done",
                {"version": {"expected": named, "now": instance.version}, "intent": {"now": instance.intent}},
            )
        found = _difference(instance, expected)
        who = found.get("changed_by", {}).get("now", "")
        moved = [
            f"{name} {_shown(of['expected'])} → {_shown(of['now'])}" for name, of in found.items() if _is_told(name, of)
        ]
        by = f" by {who}" if who else ""
        what = f": {', '.join(moved)}" if moved else ""
        return cls(
            f"{instance.name} was changed{by} meanwhile (version {expected} → {instance.version}){what}; nothing was done",
            found,
        )


def check_expected(instance: Instance, expected: int | None) -> None:
    """Refuse when the instance is no longer at the version that the caller saw."""
    if expected is not None and expected != instance.version:
        raise Stale.of(instance, expected)


def _difference(instance: Instance, expected: int) -> Difference:
    """What the ledger says was changed since that version, the last change's author, and how it is now."""
    found: Difference = {"version": {"expected": expected, "now": instance.version}, "intent": {"now": instance.intent}}
    rows = Event.objects.using(FACTS).filter(instance=instance.name, kind__in=KINDS).order_by("-revision")[:LOOKED_AT]
    last = None
    for event in reversed(rows):
        data = msgspec.json.decode(event.data)
        # An event from before versions were counted has none.
        if data.get("version", 0) <= expected:
            continue
        last = event
        for name, before, now in _moves(event.kind, data, instance):
            found.setdefault(name, {}).setdefault("expected", before)
            found[name]["now"] = now
    if last is not None:
        at = datetime.datetime.fromtimestamp(last.at, datetime.UTC).isoformat(timespec="milliseconds")
        found["changed_by"] = {"now": last.actor}
        found["changed_at"] = {"now": at.replace("+00:00", "Z")}
        found["reason"] = {"now": last.reason}
    return {name: of for name, of in found.items() if name == "version" or of.get("expected") != of["now"]}


def _moves(kind: str, data: dict[str, Any], instance: Instance) -> list[tuple[str, Any, Any]]:
    """(field, what it was before this event, what it is now)."""
    if kind == "intent.changed":
        if data["dp"] is None:
            return [("intent", data["before"], instance.intent)]
        return [(f"intent of dp{data['dp']}", data["before"], data["after"])]
    if kind == "instance.changed":
        return [(name, value, getattr(instance, name)) for name, value in data["before"].items() if name in FIELDS]
    before = "retired" if kind == "instance.added" else data.get("intent", "enabled")
    return [("intent", before, instance.intent)]


def _is_told(name: str, of: dict[str, Any]) -> bool:
    return "expected" in of and name != "version"


def _shown(value: Any) -> str:
    return "none" if value in (None, "") else str(value)
