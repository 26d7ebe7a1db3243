"""The state read from tables is the state followed by events, whatever happens; and both can be told as of any revision."""

import json
import re
import time
from pathlib import Path

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import controlplane
from controlplane.databases import FACTS, READER
from controlplane.domain import fleetstate
from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.tail import after
from controlplane.models import Drain, Event
from controlplane.queries import state
from tests.controlplane.queries.whole_fleet import WholeFleet

SMALL = Topology(1, 1, 2, 1)
TWO_GROUPS = Topology(2, 1, 1, 1)
STATE_QUERIES = 11
ELSEWHERE = {"router.restarted", "router.worker_added", "router.worker_removed"}
"""Written only by a look at a real router: driven in its own tests, and no part of the state."""

NAMES = ["a", "b", "c"]
GATEWAYS = ["g1", "g2"]
PORTS = [4001, 4002, 4003, 4004]


class Follower:
    """Reads the state once, then only events; compares after every step."""

    def __init__(self, fleet: WholeFleet) -> None:
        self.fleet = fleet
        self.cursor, self.state = state.fleet_state()
        self.kinds: set[str] = set()

    def check(self) -> None:
        events = after(self.cursor.revision, limit=10_000)
        before = json.dumps(self.state, sort_keys=True)
        followed = self.state
        for event in events:
            followed = fleetstate.apply(followed, event)
        assert json.dumps(self.state, sort_keys=True) == before, "apply() touched the state it was given"
        assert fleetstate.follow(self.state, events) == followed
        cursor, read = state.fleet_state()
        assert read == followed, f"after {self.fleet.did[-1]}; all of it: {self.fleet.did}"
        assert json.loads(json.dumps(read)) == read
        self.cursor, self.state = cursor, followed
        self.kinds |= {event.kind for event in events}


def everything(fleet: WholeFleet, check) -> None:
    """Every kind of event at least once, each where it changes something."""
    steps = [
        lambda: fleet.add("a"),
        lambda: fleet.add("d", "decode", port=9301),
        lambda: fleet.register_itself("b"),
        lambda: fleet.edit("a", own_port=9302, engine_url="http://a.example:30000"),
        lambda: fleet.edit("a", engine_url=None),
        lambda: fleet.publish("a", 0, f"{_host}:7001", "x"),
        lambda: fleet.publish("a", 0, f"{_host}:7002", "y"),
        lambda: fleet.put("a", Slot(0, 0, 0, 0), SMALL, 4001, token="t"),
        lambda: fleet.put("a", Slot(0, 0, 1, 0), SMALL, 4002, token="t"),
        lambda: fleet.observe("a", Contact.UP, 4001, 4002),
        lambda: fleet.beat("a", "w0", Slot(0, 0, 0, 0), token="t"),
        lambda: fleet.beat("a", "w1", Slot(0, 0, 1, 0), token="t"),
        lambda: fleet.expire("w0"),
        lambda: fleet.expire("w1"),
        lambda: fleet.beat("a", "w1", Slot(0, 0, 1, 0), token="t"),
        # The owner answers, so this is a claim.
        lambda: fleet.put("a", Slot(0, 0, 0, 0), SMALL, 4009, token="t"),
        lambda: fleet.join("g1", "http://g1.example"),
        lambda: fleet.breaker("g1", "a", "open"),
        lambda: fleet.breaker("g1", "a", "half_open", 1),
        lambda: fleet.breaker("g1", "a", "closed"),
        lambda: fleet.router("add", "r", "a", "b"),
        lambda: fleet.router_breaker("r", "a", "open"),
        lambda: fleet.router("edit", "r", "a"),
        lambda: fleet.launch("b", TWO_GROUPS, 5001),
        lambda: fleet.operate("cordon", "b", 1),
        lambda: fleet.operate("drain", "b", 0),
        fleet.look_at_drains,
        fleet.look_at_drains,
        lambda: fleet.operate("drain", "b"),
        lambda: fleet.operate("hold", "b"),
        lambda: fleet.operate("uncordon", "b"),
        lambda: fleet.operate("force", "b", 0),
        lambda: fleet.operate("drain", "a"),
        lambda: fleet.observe("a", Contact.REFUSED, 4001),
        lambda: fleet.observe("a", Contact.REFUSED, 4001),
        lambda: fleet.put("a", Slot(0, 0, 0, 0), SMALL, 4001, token="t"),
        lambda: fleet.observe("a", Contact.UP, 4001, 4002, 4009),
        lambda: fleet.flushed("a"),
        # A new launch beside the old one, which dies: promoted.
        lambda: fleet.launch("a", SMALL, 4101, token="u"),
        lambda: fleet.observe("a", Contact.REFUSED, 4001, 4002, 4009),
        lambda: fleet.observe("a", Contact.REFUSED, 4001, 4002, 4009),
        lambda: fleet.observe("a", Contact.UP, 4101, 4102),
        # Its launch is over.
        lambda: fleet.expire("w0"),
        fleet.look_at_drains,
        lambda: fleet.observe_sessions("a", Contact.UP, f"{_host}:7001"),
        lambda: fleet.observe_sessions("a", Contact.REFUSED, f"{_host}:7001", f"{_host}:7002"),
        lambda: fleet.observe_sessions("a", Contact.REFUSED, f"{_host}:7001", f"{_host}:7002"),
        lambda: fleet.order("b", "evict", Slot(0, 0, 0, 0)),
        lambda: fleet.order("b", "evict"),
        lambda: fleet.request("evict", "a"),
        lambda: fleet.note("a", "registration.refused", what="PUT /route", source="x", sentence="no"),
        lambda: fleet.note("a", "listener.opened", port=9302),
        lambda: fleet.note("a", "observation.turned", before="unasked", state="listed", sentence="http://a answers"),
        lambda: fleet.edit("e", observed_url="http://e.example:8998", observed_engine_info_url="http://e.example:6789"),
        lambda: fleet.note("a", "listener.failed", port=9302, why="taken"),
        lambda: fleet.token("t"),
        fleet.alarm,
        lambda: fleet.engine("a", "up", mode="prefill", model="m"),
        lambda: fleet.engine("a", "down", "refused"),
        lambda: fleet.engine("a", "unknown"),
        lambda: fleet.breaker("g1", "a", "open"),
        lambda: fleet.leave("g1"),
        lambda: fleet.join("g1"),
        lambda: fleet.router("remove", "r"),
        # What the first rank left open, the second one says.
        lambda: fleet.add("c"),
        lambda: fleet.put("c", Slot(0, 0, 0, 0), SMALL, 6001, token="t"),
        lambda: fleet.put("c", Slot(0, 0, 1, 0), SMALL, 6002, token="t", layout="nhd"),
        # A whole launch overtakes one that has only begun.
        lambda: fleet.add("e"),
        lambda: fleet.put("e", Slot(0, 0, 0, 0), SMALL, 6101, token="t"),
        lambda: fleet.observe("e", Contact.UP, 6101),
        lambda: fleet.launch("e", TWO_GROUPS, 6201, token="u"),
        # A rank of a launch that was replaced comes late.
        lambda: fleet.add("f"),
        lambda: fleet.launch("f", SMALL, 6301),
        lambda: fleet.launch("f", SMALL, 6401),
        lambda: fleet.observe("f", Contact.UNREACHED, 6301, 6302),
        lambda: fleet.observe("f", Contact.REFUSED, 6301, 6302),
        lambda: fleet.put("f", Slot(0, 0, 0, 0), SMALL, 6301),
        lambda: fleet.retire("b"),
        lambda: fleet.purge("b"),
        fleet.purge_archive,
        lambda: fleet.retire("a"),
        lambda: fleet.add("a"),
    ]
    for step in steps:
        step()
        check()


_host = "10.0.0.1"


def test_every_kind_of_event_is_followed_where_it_changes_something(on_backend):
    fleet = WholeFleet()
    follower = Follower(fleet)
    everything(fleet, follower.check)
    assert follower.kinds == fleetstate.KNOWN - ELSEWHERE
    # And the whole story, told from its beginning, ends where the tables are.
    assert state.as_of(follower.cursor.revision) == follower.state


def test_every_kind_that_is_written_anywhere_is_known_to_the_state():
    """Found in the source, so that a new kind cannot be forgotten."""
    root = Path(controlplane.__file__).parent
    families = {kind.split(".")[0] for kind in fleetstate.KNOWN}
    literal = re.compile(rf"""["']((?:{"|".join(sorted(families))})\.[a-z_]+)["']""")
    written = re.compile(r"NewEvent\(\s*[\"']([a-z_]+\.[a-z_]+)[\"']|kind: ClassVar\[str\] = \"([a-z_]+\.[a-z_]+)\"")
    found: dict[str, str] = {}
    for path in root.rglob("*.py"):
        if "migrations" in path.parts or path.parts[-2:-1] == ("api",) or path.parent.name == "views":
            continue
        text = path.read_text()
        kinds = {one or other for one, other in written.findall(text)}
        # Of management/, the words of the audit are no events.
        if path.relative_to(root).parts[0] in ("commands", "bootstrap", "access", "ledger", "domain"):
            kinds |= set(literal.findall(text))
        found |= dict.fromkeys(kinds, str(path.relative_to(root)))
    strangers = {kind: where for kind, where in found.items() if kind not in fleetstate.KNOWN}
    assert not strangers, f"domain/fleetstate.py knows nothing of {strangers}: follow it, or list it as quiet"
    assert {"intent.changed", "drain.started", "breaker.turned", "rank.registered", "token.made"} <= set(found)


name, gateway, port = st.sampled_from(NAMES), st.sampled_from(GATEWAYS), st.sampled_from(PORTS)
group = st.sampled_from([-1, 0, 1])
slot = st.sampled_from([Slot(0, 0, 0, 0), Slot(0, 0, 1, 0), Slot(1, 0, 0, 0)])
STEPS = st.one_of(
    st.tuples(st.just("add"), name),
    st.tuples(st.just("edit"), name, st.sampled_from([None, 9401, 9402])),
    st.tuples(
        st.just("operate"), st.sampled_from(["cordon", "uncordon", "drain", "cancel", "hold", "force"]), name, group
    ),
    st.tuples(st.just("operate"), st.sampled_from(["cordon", "drain", "uncordon"]), name, group),
    st.tuples(st.just("retire"), name),
    st.tuples(st.just("purge"), name),
    st.tuples(st.just("look")),
    st.tuples(st.just("join"), gateway, st.sampled_from(["", "http://one.example", "http://two.example"])),
    st.tuples(st.just("leave"), gateway),
    st.tuples(st.just("acknowledge"), gateway),
    st.tuples(
        st.just("breaker"),
        gateway,
        name,
        st.sampled_from(["open", "half_open", "closed"]),
        st.sampled_from([None, 0, 1]),
    ),
    st.tuples(st.just("router"), st.sampled_from(["add", "edit", "remove"]), st.lists(name, unique=True, max_size=3)),
    st.tuples(st.just("router_breaker"), name, st.sampled_from(["open", "closed"])),
    st.tuples(
        st.just("put"), name, slot, st.sampled_from([SMALL, TWO_GROUPS]), port, st.sampled_from([None, "t", "u"])
    ),
    st.tuples(st.just("launch"), name, st.sampled_from([SMALL, TWO_GROUPS])),
    st.tuples(st.just("observe"), name, st.sampled_from([Contact.UP, Contact.REFUSED]), st.sets(port, min_size=1)),
    st.tuples(st.just("publish"), name, st.sampled_from("xyz"), st.sampled_from("de")),
    st.tuples(st.just("sessions"), name, st.sampled_from([Contact.UP, Contact.REFUSED]), st.sampled_from("xyz")),
    st.tuples(st.just("flushed"), name),
    st.tuples(st.just("engine"), name, st.sampled_from(["up", "down", "unknown"]), st.sampled_from(["", "lost"])),
    st.tuples(st.just("order"), name, st.sampled_from(["evict", "supersede"])),
    st.tuples(st.just("beat"), name, st.sampled_from(["w0", "w1"]), slot),
    st.tuples(st.just("expire"), st.sampled_from(["w0", "w1"])),
)


def do(fleet: WholeFleet, what: str, *said) -> None:
    match what:
        case "edit":
            fleet.edit(said[0], own_port=said[1])
        case "look":
            fleet.look_at_drains()
        case "router":
            fleet.router(said[0], "r", *said[1])
        case "router_breaker":
            fleet.router_breaker("r", *said)
        case "put":
            fleet.put(*said[:4], token=said[4])
        case "launch":
            fleet.launch(*said, 4001)
        case "observe":
            fleet.observe(said[0], said[1], *said[2])
        case "publish":
            fleet.publish(said[0], 0, f"{_host}:{ord(said[1])}", said[2])
        case "sessions":
            for _ in range(2):
                fleet.observe_sessions(said[0], said[1], f"{_host}:{ord(said[2])}")
        case _:
            getattr(fleet, what)(*said)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(steps=st.lists(STEPS, min_size=15, max_size=30))
def drive(fleet: WholeFleet, follower: Follower, steps) -> None:
    for step in steps:
        do(fleet, *step)
        follower.check()


def test_whatever_happens_the_tables_say_what_the_events_say(on_backend):
    fleet = WholeFleet()
    for known in NAMES:
        fleet.add(known)
        fleet.launch(known, TWO_GROUPS, 4001)
    for known in GATEWAYS:
        fleet.join(known)
    follower = Follower(fleet)
    # One fleet for all examples: each begins where the last one ended, which is a beginning like any other.
    drive(fleet, follower)
    assert state.as_of(follower.cursor.revision) == follower.state


def test_as_of_any_revision_is_what_the_tables_were_then(on_backend):
    fleet = WholeFleet()
    then: dict[int, dict] = {}

    def remember() -> None:
        cursor, read = state.fleet_state()
        then[cursor.revision] = read

    everything(fleet, remember)
    for revision, read in then.items():
        assert state.as_of(revision) == read
    last = max(then)
    narrowed = state.as_of(last, "a")
    assert set(narrowed["instances"]) == {"a"} and narrowed["instances"]["a"] == then[last]["instances"]["a"]
    assert narrowed["gateways"] == then[last]["gateways"]
    assert state.as_of(last, "ghost")["instances"] == {}
    assert state.as_of(0) == fleetstate.empty()


def test_one_instance_is_read_alone_and_followed_alone(on_backend):
    fleet = WholeFleet()
    fleet.add("a"), fleet.add("b")
    fleet.launch("a", SMALL, 4001)
    cursor, alone = state.fleet_state("a")
    assert set(alone["instances"]) == {"a"} and alone["instances"]["a"] == state.fleet_state()[1]["instances"]["a"]
    fleet.operate("cordon", "b"), fleet.operate("drain", "a", -1), fleet.join("g1")
    assert fleetstate.follow(alone, after(cursor.revision)) == state.fleet_state("a")[1]
    assert state.fleet_state("ghost")[1]["instances"] == {}


def test_as_of_a_moment(on_backend):
    fleet = WholeFleet()
    fleet.add("a")
    before = time.time()
    Event.objects.using(FACTS).filter(revision=1).update(at=before - 60)
    fleet.operate("cordon", "a")
    assert state.revision_at(before - 100) == 0
    assert state.state_at(before - 30) == (1, state.as_of(1))
    revision, now = state.state_at(time.time() + 1)
    assert revision == 2 and now["instances"]["a"]["intent"] == "cordoned"


def test_what_cannot_be_told_is_refused_with_a_sentence(on_backend, monkeypatch):
    fleet = WholeFleet()
    fleet.add("a"), fleet.add("b")
    for wrong in (-1, 3):
        with pytest.raises(Refused, match="does not exist: the ledger is at 2") as refused:
            state.as_of(wrong)
        assert refused.value.code == "malformed"
    monkeypatch.setattr(state, "MOST_REPLAYED", 1)
    with pytest.raises(Refused, match="telling this takes 2 events, and at most 1 are read") as refused:
        state.as_of(2)
    assert refused.value.code == "too_large"
    assert set(state.as_of(2, "a")["instances"]) == {"a"}
    Event.objects.using(FACTS).filter(revision=1).delete()
    with pytest.raises(
        Refused, match=r"the ledger is kept from revision 2 .* what was at revision 2 cannot be told"
    ) as gone:
        state.as_of(2)
    assert gone.value.code == "cursor_gone"


def test_a_long_story_is_read_in_pieces(on_backend, monkeypatch):
    monkeypatch.setattr(state, "PIECE", 3)
    fleet = WholeFleet()
    fleet.add("a")
    for _ in range(5):
        fleet.operate("cordon", "a"), fleet.operate("uncordon", "a")
    assert state.as_of(11) == state.fleet_state()[1]
    assert state.as_of(11, "a") == state.fleet_state("a")[1]


def test_a_drain_that_ended_is_no_part_of_the_state(on_backend):
    fleet = WholeFleet()
    fleet.add("a")
    fleet.operate("drain", "a")
    (drain,) = state.fleet_state()[1]["instances"]["a"]["drains"].values()
    assert drain["drain"] == Drain.objects.using(FACTS).get().pk and drain["progress"] == "waiting"
    fleet.operate("cancel", "a")
    assert state.fleet_state()[1]["instances"]["a"]["drains"] == {}


def test_the_number_of_queries_does_not_grow_with_the_fleet(on_backend):
    def selects(instance: str | None = None) -> int:
        with CaptureQueriesContext(connections[READER]) as captured:
            state.fleet_state(instance)
        return sum("SELECT" in query["sql"] for query in captured)

    assert selects() == STATE_QUERIES
    fleet = WholeFleet()
    for known in NAMES:
        fleet.add(known)
        fleet.launch(known, TWO_GROUPS, 4001)
        fleet.operate("drain", known, 1)
    assert selects() == selects("a") == STATE_QUERIES
