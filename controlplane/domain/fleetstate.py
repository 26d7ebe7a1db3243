"""The fleet as JSON, and how each event of the ledger changes it: what the stream sends, and what "as of" is read from.

Shape: {"instances": {name: {role, intent, own_port, host_alias, engine_url, observed_url, observed_engine_info_url,
version, engine: {state, why}, groups: {dp: intent}, drains: {dp | "all": {...}}, breakers: {gateway: {dp | "all": state}},
late_workers: {worker: {slots, since}}, and what `snapshot.take` says of its launches}}, "gateways": {name: {url}},
"routers": {name: {url, instances}}}. Enabled groups, closed breakers, ended drains, gateways that left and workers that are
on time are absent. Whatever changes without an event (ages, acknowledgements, counts) is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from . import snapshot
from .directory import Directory

State = dict[str, Any]
Data = Mapping[str, Any]

WHOLE = "all"
URLS = ("engine_url", "observed_url", "observed_engine_info_url")
SETTINGS = ("role", "own_port", "host_alias", *URLS, "version")


class Happened(Protocol):
    """An event as the ledger stores it."""

    @property
    def kind(self) -> str: ...
    @property
    def instance(self) -> str: ...
    @property
    def data(self) -> Data: ...


def empty() -> State:
    return {"instances": {}, "gateways": {}, "routers": {}}


def newcomer() -> State:
    """An instance of which nothing is known but that it is there."""
    return {
        "role": "prefill",
        "intent": "enabled",
        "own_port": None,
        "host_alias": None,
        **dict.fromkeys(URLS, ""),
        "version": 1,
        "engine": {"state": "unknown", "why": ""},
        "groups": {},
        "drains": {},
        "breakers": {},
        "late_workers": {},
        **snapshot.take(Directory("")),
    }


def apply(state: State, event: Happened) -> State:
    """The state after one event; the old state stays as it was. Kinds that say nothing about it, or that nobody knows,
    change nothing, and neither do events about an instance that it does not hold."""
    if event.kind in OF_FLEET:
        return {**state, **OF_FLEET[event.kind](state, event.data)}
    instances = state["instances"]
    after = _of_instance(instances.get(event.instance), event)
    return state if after is None else {**state, "instances": {**instances, event.instance: after}}


def follow(state: State, events: Iterable[Happened]) -> State:
    """The same as apply() for one event after another, without a copy of the fleet for each."""
    state = {**state, "instances": dict(state["instances"])}
    for event in events:
        if event.kind in OF_FLEET:
            state |= OF_FLEET[event.kind](state, event.data)
            continue
        after = _of_instance(state["instances"].get(event.instance), event)
        if after is not None:
            state["instances"][event.instance] = after
    return state


def scope(dp: int | None) -> str:
    """A DP group as a key of the state.

    >>> scope(None), scope(3)
    ('all', '3')
    """
    return WHOLE if dp is None else str(dp)


def _of_instance(before: State | None, event: Happened) -> State | None:
    """The instance after an event; None when nothing changes."""
    if event.kind == "instance.added":
        return _added(before or newcomer(), event.data)
    if before is None:
        return None
    follow = OF_INSTANCE.get(event.kind)
    if follow is not None:
        return {**before, **follow(before, event.data)}
    after = snapshot.apply(before, event.kind, event.data)
    return None if after is before else after


def _settings(data: Data) -> State:
    """What the event says of them: old events lack the newer ones."""
    return {name: data[name] for name in SETTINGS if name in data}


def _added(instance: State, data: Data) -> State:
    return {**instance, **dict.fromkeys(URLS, ""), **_settings(data), "intent": "enabled"}


def _changed(instance: State, data: Data) -> State:
    return _settings(data)


def _retired(instance: State, data: Data) -> State:
    # The event says what it had: whoever comes next may have it now.
    said = {name: value for name, value in _settings(data).items() if name not in ("own_port", "host_alias")}
    return {**said, "intent": "retired", "own_port": None, "host_alias": None, "groups": {}}


def _intent(instance: State, data: Data) -> State:
    changes: State = {"version": data["version"]}
    if data["dp"] is None:
        return changes | {"intent": data["after"]}
    groups = {dp: intent for dp, intent in instance["groups"].items() if dp != scope(data["dp"])}
    if data["after"] != "enabled":
        groups[scope(data["dp"])] = data["after"]
    return changes | {"groups": groups}


def _engine_turned(instance: State, data: Data) -> State:
    return {"engine": {"state": data["state"], "why": data["why"]}}


def _drain_started(instance: State, data: Data) -> State:
    drain = {
        "drain": data["drain"],
        "progress": "waiting",
        "blockers": [],
        "launch": data["launch"],
        "deadline_at": data["deadline_at"],
        "min_ready": data["min_ready"],
    }
    return {"drains": {**instance["drains"], scope(data["dp"]): drain}}


def _drain_progressed(instance: State, data: Data) -> State:
    drains, key = instance["drains"], scope(data["dp"])
    seen = {"progress": data["after"], "blockers": data["blockers"]}
    if "launch" in data:
        seen["launch"] = data["launch"]
    return {"drains": {**drains, key: {**drains[key], **seen}}}


def _drain_ended(instance: State, data: Data) -> State:
    return {"drains": {key: drain for key, drain in instance["drains"].items() if drain["drain"] != data["drain"]}}


def _breaker(instance: State, data: Data) -> State:
    gateway, key = data["gateway"], scope(data["dp"])
    own = {dp: state for dp, state in instance["breakers"].get(gateway, {}).items() if dp != key}
    if data["after"] != "closed":
        own[key] = data["after"]
    others = _without(instance["breakers"], gateway)
    return {"breakers": {**others, gateway: own} if own else others}


def _worker_late(instance: State, data: Data) -> State:
    worker = {"slots": data["slots"], "since": data["since"]}
    return {"late_workers": {**instance.get("late_workers", {}), data["worker"]: worker}}


def _worker_on_time(instance: State, data: Data) -> State:
    return {"late_workers": _without(instance.get("late_workers", {}), data["worker"])}


def _gateway_joined(state: State, data: Data) -> State:
    # Whoever spoke under this name before speaks no more.
    gateways = {**state["gateways"], data["gateway"]: {"url": data["url"]}}
    return {"gateways": gateways, "instances": _silenced(state["instances"], data["gateway"])}


def _gateway_left(state: State, data: Data) -> State:
    instances = _silenced(state["instances"], data["gateway"])
    return {"gateways": _without(state["gateways"], data["gateway"]), "instances": instances}


def _router_set(state: State, data: Data) -> State:
    router = {"url": data["url"], "instances": sorted(data["instances"])}
    return {"routers": {**state["routers"], data["router"]: router}}


def _router_removed(state: State, data: Data) -> State:
    instances = _silenced(state["instances"], f"router:{data['router']}")
    return {"routers": _without(state["routers"], data["router"]), "instances": instances}


def _purged(state: State, data: Data) -> State:
    return {"instances": _without(state["instances"], data["name"])}


def _silenced(instances: State, gateway: str) -> State:
    """The instances without what one gateway said of them."""
    return {
        name: {**instance, "breakers": _without(instance["breakers"], gateway)}
        if gateway in instance["breakers"]
        else instance
        for name, instance in instances.items()
    }


def _without(mapping: State, key: str) -> State:
    return {k: v for k, v in mapping.items() if k != key}


OF_INSTANCE: Mapping[str, Callable[[State, Data], State]] = {
    "instance.changed": _changed,
    "instance.retired": _retired,
    "intent.changed": _intent,
    "drain.started": _drain_started,
    "drain.progressed": _drain_progressed,
    "drain.ended": _drain_ended,
    "breaker.turned": _breaker,
    "worker.late": _worker_late,
    "worker.back": _worker_on_time,
    "worker.gone": _worker_on_time,
    "engine.turned": _engine_turned,
}
"""Beside those of `snapshot.FOLLOW`: from the instance and the event's data to the parts that change."""

OF_FLEET: Mapping[str, Callable[[State, Data], State]] = {
    "gateway.joined": _gateway_joined,
    "gateway.left": _gateway_left,
    "instance.purged": _purged,
    "router.added": _router_set,
    "router.changed": _router_set,
    "router.removed": _router_removed,
}

QUIET = frozenset(
    {
        "alarm.acknowledged",
        "alarm.raised",
        "alarm.resolved",
        "archive.purged",
        "engine.identified",
        "listener.failed",
        "listener.opened",
        "observation.turned",
        "registration.refused",
        "request.answered",
        "request.made",
        "router.restarted",
        "router.worker_added",
        "router.worker_removed",
        "token.made",
        "token.revoked",
    }
)
"""What is told, but is no part of the state: a test compares all that is written with these tables."""

KNOWN = frozenset({"instance.added", *OF_INSTANCE, *OF_FLEET, *snapshot.FOLLOW, *QUIET})
