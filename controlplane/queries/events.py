"""What the ledger says, each event as a sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from controlplane.domain.topology import Slot
from controlplane.ledger.tail import Cursor, EventRow, after, head, latest

from . import (
    telling_access,
    telling_alarms,
    telling_drains,
    telling_engines,
    telling_gateways,
    telling_retention,
    telling_workers,
)
from .wording import address, counted, listing

__all__ = ["Cursor", "EventRow", "after", "head", "latest", "sentence"]

Data = Mapping[str, Any]
ASKED = {
    "evict": "evict {what}",
    "supersede": "put the candidate launch in charge",
    "readmit": "register {what} again, if they answer",
    "reregister": "have {what} register again",
    "purge": "purge it: {what} leaves, and nothing is called so any more",
}
CONTACTS = {
    "up": "answers",
    "refused": "refuses connections",
    "silent": "accepts connections, but does not greet",
    "unreached": "cannot be reached from here",
    "stranger": "is held by another program",
    "unprobed": "has not been asked yet",
}


def sentence(event: EventRow) -> str:
    """What happened, without when, to whom and by whom: those stand beside it.

    Kinds that are not known here yet are shown as they are stored.
    """
    tell = TELL.get(event.kind)
    try:
        return tell(event.data) if tell is not None else _raw(event)
    except (KeyError, TypeError, ValueError):
        # Written by another version of ours: better raw than not at all.
        return _raw(event)


def _raw(event: EventRow) -> str:
    return f"{event.kind} {msgspec.json.encode(event.data).decode()}"


def _opened(d: Data) -> str:
    dp, cp, tp, pp = d["topology"]
    size = counted(dp * cp * tp * pp, "rank")
    return f"launch {d['launch']} began as {d['role']}: dp {dp}, cp {cp}, tp {tp}, pp {pp}, {size} expected"


def _registered(d: Data) -> str:
    said = f"{_slot(d)} registered at {_address(d)} in launch {d['launch']}"
    return f"{said}, before at {d['previous']}" if d.get("previous") else said


def _promoted(d: Data) -> str:
    how = "" if d["complete"] else ", not complete yet"
    instead = f" instead of launch {d['replaced']}" if d["replaced"] is not None else ""
    doubt = "; not all ranks of the old launch could be asked" if d["unchecked"] else ""
    return f"launch {d['launch']} is current{instead}{how}{doubt}"


def _health(d: Data) -> str:
    return f"/health answers {d['status']} now: {d['reason']}"


def _added(d: Data) -> str:
    ways = [f"port {d['own_port']}"] if d.get("own_port") else []
    ways += [f"name {d['host_alias']}"] if d.get("host_alias") else []
    said = f"{d['name']} was added as {d['role']}" + (f", reached by {' and '.join(ways)}" if ways else "")
    seen = " and ".join(d[key] for key in ("observed_url", "observed_engine_info_url") if d.get(key))
    return f"{said}, observed at {seen}" if seen else said


REACHED = ("own_port", "host_alias", "engine_url", "observed_url", "observed_engine_info_url")
PROBED = ("probe_seconds", "fail_after", "pass_after")


def _changed(d: Data) -> str:
    before = d.get("before", {})
    moved = [
        f"{key} {before[key]} → {d[key]}" for key in (*REACHED, *PROBED) if key in before and before[key] != d[key]
    ]
    moved += ["the API key of its engine"] if d.get("engine_key_changed") else []
    return f"{d['name']} was changed: {listing(moved)}"


def _made(d: Data) -> str:
    what = _slot(d) if d["slot"] is not None else "every rank"
    return f"request {d['request']}: {ASKED[d['kind']].format(what=what)}"


def _answered(d: Data) -> str:
    return f"request {d['request']} ({d['kind']}) was {'granted' if d['granted'] else 'refused'}: {d['answer']}"


def _published(d: Data) -> str:
    return (
        f"rank {d['rank']} published {counted(d['tensors'], 'tensor')} of session {d['session']} (epoch {d['epoch']})"
    )


def _slot(d: Data) -> str:
    slot = d["slot"]
    return str(Slot(*slot))


def _address(d: Data) -> str:
    return address(d["ip"], d["port"])


TELL: Mapping[str, Callable[[Data], str]] = {
    "launch.opened": _opened,
    "launch.facts_filled": lambda d: f"launch {d['launch']} learnt facts that its first ranks had left open",
    "launch.completed": lambda d: f"launch {d['launch']} is complete",
    "launch.promoted": _promoted,
    "launch.stepped_back": lambda d: f"launch {d['launch']} waits as the candidate: a complete one took its place",
    "launch.dropped": lambda d: f"launch {d['launch']} was dropped: {d['reason']}",
    "rank.registered": _registered,
    "rank.left": lambda d: f"{_slot(d)} left launch {d['launch']}: {d['reason']}",
    "rank.probed": lambda d: f"{_slot(d)} of launch {d['launch']} {CONTACTS[d['contact']]}",
    "rank.claimed": lambda d: f"{_address(d)} asked for {_slot(d)} of launch {d['launch']}, whose owner answers",
    "rank.came_late": lambda d: f"{_slot(d)} at {_address(d)} came late, from a launch that was replaced: not stored",
    "health.turned": _health,
    "instance.added": _added,
    "instance.changed": _changed,
    "instance.retired": lambda d: "retired: whoever asks for it is told 404",
    "registration.refused": lambda d: f"refused {d['what']} from {d['source'] or 'somebody'}: {d['sentence']}",
    "listener.opened": lambda d: f"listens on port {d['port']} of its own",
    "listener.failed": lambda d: f"cannot listen on its own port {d['port']}: {d['why']}",
    "observation.turned": lambda d: d["sentence"],
    "request.made": _made,
    "request.answered": _answered,
    "engine.published": _published,
    "engine.conflicted": lambda d: (
        f"session {d['session']} claims rank {d['rank']}, whose session answers: kept, not served"
    ),
    "engine.retired": lambda d: f"session {d['session']} of rank {d['rank']} ended: {d['reason']}",
    **telling_access.TELL,
    **telling_alarms.TELL,
    **telling_drains.TELL,
    **telling_engines.TELL,
    **telling_gateways.TELL,
    **telling_retention.TELL,
    **telling_workers.TELL,
}
