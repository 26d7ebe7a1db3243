"""The fleet's state by events alone: what nobody knows changes nothing, and nothing that was handed out changes."""

import doctest
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from controlplane.domain import fleetstate, snapshot
from controlplane.domain.fleetstate import KNOWN, OF_FLEET, OF_INSTANCE, QUIET, apply, empty, follow


@dataclass(frozen=True)
class Happened:
    kind: str
    instance: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def added(name: str = "a", **said: Any) -> Happened:
    told = {"name": name, "role": "prefill", "own_port": None, "host_alias": None, **said}
    return Happened("instance.added", name, told)


def intent(after: str, dp: int | None = None, version: int = 2, name: str = "a") -> Happened:
    return Happened("intent.changed", name, {"dp": dp, "before": "", "after": after, "version": version, "drain": None})


def breaker(after: str, gateway: str = "g", dp: int | None = None) -> Happened:
    return Happened("breaker.turned", "a", {"gateway": gateway, "dp": dp, "before": "", "after": after, "reason": ""})


def drain(kind: str, **said: Any) -> Happened:
    return Happened(f"drain.{kind}", "a", {"drain": 5, "dp": None, **said})


def one(*events: Happened) -> dict[str, Any]:
    state = follow(empty(), [added(), *events])
    assert json.loads(json.dumps(state)) == state
    return state["instances"]["a"]


def test_examples_hold():
    assert doctest.testmod(fleetstate).failed == 0


def test_no_kind_is_in_two_tables():
    tables = [set(OF_INSTANCE), set(OF_FLEET), set(snapshot.FOLLOW), set(QUIET), {"instance.added"}]
    assert sum(map(len, tables)) == len(KNOWN)


@pytest.mark.parametrize(
    "event",
    [
        Happened("moon.landed", "a", {"x": 1}),
        Happened("request.made", "a", {"request": 1}),
        intent("cordoned", name="ghost"),
        Happened("launch.dropped", "ghost", {"launch": 1}),
        *(Happened(kind, "a") for kind in sorted(QUIET)),
    ],
    ids=lambda event: event.kind,
)
def test_what_is_unknown_quiet_or_about_somebody_else_changes_nothing(event):
    state = apply(empty(), added())
    assert apply(state, event) is state
    assert follow(state, [event]) == state


def test_events_of_old_versions_of_ours_can_be_followed():
    """Before engines had URLs and instances a version."""
    first = one()
    assert (first["engine_url"], first["version"]) == ("", 1)
    changed = one(
        Happened("instance.changed", "a", {"name": "a", "role": "prefill", "own_port": 9, "host_alias": None})
    )
    assert (changed["own_port"], changed["version"]) == (9, 1)


def test_intents_of_the_whole_and_of_groups():
    said = one(intent("cordoned"), intent("draining", 1, 3), intent("cordoned", 0, 4), intent("enabled", 0, 5))
    assert (said["intent"], said["groups"], said["version"]) == ("cordoned", {"1": "draining"}, 5)


def test_a_retired_instance_keeps_nothing_of_what_operators_gave_it_but_its_engine():
    port = Happened(
        "instance.changed", "a", {"own_port": 9, "host_alias": "a.example", "engine_url": "http://e", "version": 2}
    )
    gone = Happened(
        "instance.retired", "a", {"own_port": 9, "host_alias": "a.example", "engine_url": "http://e", "version": 4}
    )
    said = one(port, intent("cordoned", 1, 3), gone)
    assert (said["intent"], said["own_port"], said["host_alias"], said["groups"]) == ("retired", None, None, {})
    assert (said["engine_url"], said["version"]) == ("http://e", 4)
    again = one(port, gone, added(role="decode", version=5))
    assert (again["intent"], again["role"], again["engine_url"], again["version"]) == ("enabled", "decode", "", 5)


def test_a_drain_from_its_beginning_to_its_end():
    begun = drain("started", launch=1, deadline_at=9.0, min_ready=2)
    seen = drain("progressed", before="waiting", after="empty", launch=2, blockers=["x"])
    other = Happened("drain.started", "a", {"drain": 6, "dp": 1, "launch": 1, "deadline_at": None, "min_ready": 0})
    said = one(begun, other, seen)["drains"]
    assert said["all"] == {
        "drain": 5,
        "progress": "empty",
        "blockers": ["x"],
        "launch": 2,
        "deadline_at": 9.0,
        "min_ready": 2,
    }
    assert said["1"]["progress"] == "waiting"
    ended = one(begun, other, drain("ended", result="forced", launch=1, safe_to_delete=False))
    assert list(ended["drains"]) == ["1"]


def test_breakers_end_when_they_close_or_their_gateway_leaves_or_begins_anew():
    opened = (breaker("open"), breaker("half_open", dp=1), breaker("open", "h"))
    assert one(*opened)["breakers"] == {"g": {"all": "open", "1": "half_open"}, "h": {"all": "open"}}
    assert one(*opened, breaker("closed"), breaker("closed", dp=1))["breakers"] == {"h": {"all": "open"}}
    for ended in (
        Happened("gateway.left", data={"gateway": "g", "why": ""}),
        Happened("gateway.joined", data={"gateway": "g", "url": ""}),
    ):
        assert one(*opened, ended)["breakers"] == {"h": {"all": "open"}}
    routers = (
        breaker("open", "router:r"),
        Happened("router.removed", data={"router": "r", "url": "", "instances": []}),
    )
    assert one(*routers)["breakers"] == {}


def test_gateways_and_routers():
    events = [
        Happened("gateway.joined", data={"gateway": "g", "url": "http://g"}),
        Happened("router.added", data={"router": "r", "url": "http://r", "instances": ["b", "a"]}),
    ]
    state = follow(empty(), events)
    assert state["gateways"] == {"g": {"url": "http://g"}}
    assert state["routers"] == {"r": {"url": "http://r", "instances": ["a", "b"]}}


def test_what_was_handed_out_stays_as_it_was():
    events = [
        added(),
        intent("cordoned", 1),
        breaker("open"),
        drain("started", launch=1, deadline_at=None, min_ready=0),
    ]
    state, states = empty(), []
    for event in events:
        states.append((state, json.dumps(state)))
        state = apply(state, event)
    follow(state, [intent("enabled", 1, 3), breaker("closed"), added("b")])
    assert all(json.dumps(old) == text for old, text in states)
    assert set(state["instances"]) == {"a"}
