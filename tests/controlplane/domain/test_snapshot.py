"""Snapshots are JSON, and every kind of event can be followed. That it is followed rightly is test_world's business."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain import engines, events, observation, registration, snapshot
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Directory
from controlplane.domain.engines import EngineEntry, EngineTable, observe_sessions, publish, retire_before
from tests.controlplane.domain.scene import HOST, Scene
from tests.controlplane.domain.scene import registration as put

KINDS = {cls.kind for cls in vars(events).values() if isinstance(cls, type) and getattr(cls, "kind", "")} | {
    cls.kind for cls in vars(engines).values() if isinstance(cls, type) and getattr(cls, "kind", "")
}
EVERYTHING = (
    "tp0@1 token=t; tp1@2 token=t; up 1 2; tp0@9 token=t; tp0@3 token=u outside; tp1@4 token=u layout=hnd; up 4;"
    " dead 1; flushed"
)


def test_every_kind_of_event_is_followed():
    assert set(snapshot.FOLLOW) == KINDS
    assert {"launch.opened", "rank.left", "engine.retired"} < KINDS


def test_a_snapshot_is_json_as_it_is():
    taken = snapshot.take(
        Scene().play(EVERYTHING).directory, publish(EngineTable(), EngineEntry(0, "s", "d", 1, 8, 0.0))[0]
    )
    assert json.loads(json.dumps(taken)) == taken
    assert taken["engines"]["live"]["0"]["session"] == "s"


def test_nothing_that_changes_by_itself_is_in_it():
    scene = Scene().play("tp0@1; tp1@2; up 1 2")
    before = snapshot.take(scene.directory)
    scene.play("wait 60; tp0@1; up 1 2; wait 60; up 1 2")
    assert scene.last.events == ()
    assert snapshot.take(scene.directory) == before


def test_an_event_about_something_else_changes_nothing():
    taken = snapshot.take(Directory("here"))
    assert snapshot.apply(taken, "request.answered", {"granted": True}) is taken


def test_the_old_snapshot_stays_as_it_was():
    scene = Scene()
    states = [(json.dumps(snapshot.take(scene.directory)), snapshot.take(scene.directory))]
    for step in EVERYTHING.split(";"):
        scene.play(step)
        taken = states[-1][1]
        for event in scene.last.events:
            taken = snapshot.apply(taken, event.kind, json.loads(json.dumps(event.data())))
        states.append((json.dumps(taken), taken))
        if not step.strip().startswith("dead"):
            assert taken == snapshot.take(scene.directory), step
        else:
            states[-1] = (json.dumps(snapshot.take(scene.directory)), snapshot.take(scene.directory))
    assert all(json.dumps(taken) == text for text, taken in states)


SESSIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 1), st.sampled_from("abc"), st.sampled_from("de"), st.booleans()),
        st.tuples(
            st.just("probe"), st.sampled_from("abc"), st.sampled_from([Contact.UP, Contact.REFUSED, Contact.SILENT])
        ),
        st.tuples(st.just("retire"), st.integers(0, 5)),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(SESSIONS)
def test_sessions_are_followed_whatever_happens_to_them(steps):
    table, now = EngineTable(), 100.0
    taken = snapshot.take(Directory("here"), table)
    for what, *said in steps:
        now += 0.2
        if what == "publish":
            rank, session, digest, old_style = said
            table, happened = publish(table, EngineEntry(rank, session, digest, 1, 8, now, old_style))
        elif what == "probe":
            seen = observe_sessions(table, {said[0]: said[1]}, now)
            table, happened = seen.table, seen.events
        else:
            table, happened = retire_before(table, now - said[0] * 0.3, "its launch was replaced")
        for event in happened:
            taken = snapshot.apply(taken, event.kind, json.loads(json.dumps(event.data())))
        assert taken == snapshot.take(Directory("here"), table)
        assert all(table.epochs[rank] >= entry.epoch for rank, entry in [*table.live.items(), *table.conflicts.items()])


BATCH = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 1), st.integers(1, 5), st.sampled_from(["", "page=16", "token=t", "http=30001"])),
        st.tuples(st.just("see"), st.integers(1, 5), st.sampled_from([Contact.UP, Contact.REFUSED, Contact.UNREACHED])),
    ),
    max_size=25,
)


@pytest.mark.parametrize("size", [2, 7])
@settings(max_examples=150, deadline=None)
@given(steps=BATCH)
def test_a_batch_that_shares_its_tables_decides_as_if_each_came_alone(size, steps):
    alone, batched = Directory("here"), Directory("here")
    workspace: dict = {}
    published = snapshot.take(batched)
    held = batched
    for n, (what, number, said) in enumerate(steps):
        now = 1000.0 + 0.2 * n
        if n % size == 0:
            # What was published before this batch is not to be touched by it.
            assert snapshot.take(held) == published
            workspace, held, published = {}, batched, snapshot.take(batched)
        if what == "see":
            verdicts = {(HOST, number): said}
            alone, batched = (
                observation.observe(alone, verdicts, now).directory,
                observation.observe(batched, verdicts, now).directory,
            )
            continue
        wanted = put(f"tp{what}@{number}", said.split())
        one = registration.register(alone, wanted, now)
        other = registration.register(batched, wanted, now, workspace)
        assert [e.data() for e in one.events] == [e.data() for e in other.events]
        alone, batched = one.directory, other.directory
        assert alone == batched
    assert snapshot.take(held) == published
