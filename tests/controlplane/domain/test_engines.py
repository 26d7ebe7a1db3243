"""Engine info: one epoch a session, conflicts of old-style keys, and how sessions end."""

from dataclasses import replace

import pytest

from controlplane.domain.contact import Contact
from controlplane.domain.engines import (
    EngineEntry,
    EngineTable,
    observe_sessions,
    publish,
    retire_before,
)


def entry(session: str, *, rank: int = 0, digest: str = "d", old_style: bool = True, at: float = 0.0) -> EngineEntry:
    return EngineEntry(rank, session, digest, 1, 8, at, old_style)


def after(*steps: EngineEntry | tuple[str, Contact, float]) -> tuple[EngineTable, list[str]]:
    """The table after publications and verdicts, and what happened: "published a1" for session a in epoch 1."""
    table, happened = EngineTable(), []
    for step in steps:
        if isinstance(step, EngineEntry):
            table, events = publish(table, step)
        else:
            seen = observe_sessions(table, {step[0]: step[1]}, step[2])
            table, events = seen.table, seen.events
        happened += [f"{e.kind.removeprefix('engine.')} {e.entry.session}{e.entry.epoch}" for e in events]
    return table, happened


A, B, C = entry("a"), entry("b"), entry("c")
E, NEW_B = entry("a", digest="e"), entry("b", old_style=False)
OUTSIDE = replace(A, probeable=False)
A_UP = ("a", Contact.UP, 1.0)
DEAD = [("a", Contact.REFUSED, 2.0), ("a", Contact.REFUSED, 2.5)]
# fmt: off
TABLE = [
    ("a first session", [A], "a1", "-", "published a1"),
    ("the same again is nothing new", [A, A], "a1", "-", "published a1"),
    ("the same session with another dictionary", [A, A_UP, E], "a1", "-", "published a1, published a1"),
    ("another session beside a living one is a conflict", [A, A_UP, B], "a1", "b2", "published a1, conflicted b2"),
    ("whichever way it names its rank", [A, A_UP, NEW_B], "a1", "b2", "published a1, conflicted b2"),
    ("or beside one that nobody has asked yet", [A, B], "a1", "b2", "published a1, conflicted b2"),
    ("or beside one that is only silent now", [A, A_UP, ("a", Contact.SILENT, 2.0), B], "a1", "b2",
     "published a1, conflicted b2"),
    ("told once", [A, A_UP, B, B], "a1", "b2", "published a1, conflicted b2"),
    ("a third claimant takes the second's place", [A, A_UP, B, C], "a1", "c3",
     "published a1, conflicted b2, retired b2, conflicted c3"),
    ("a session never reached gives way", [A, ("a", Contact.UNREACHED, 1.0), B], "b2", "-",
     "published a1, retired a1, published b2"),
    ("also to a claim of before", [A, B, ("a", Contact.UNREACHED, 1.0)], "b2", "-",
     "published a1, conflicted b2, retired a1, published b2"),
    ("one that may not be asked does so at once", [OUTSIDE, B], "b2", "-", "published a1, retired a1, published b2"),
    ("one refusal ends nothing", [A, A_UP, *DEAD[:1]], "a1", "-", "published a1"),
    ("two do", [A, A_UP, *DEAD], "-", "-", "published a1, retired a1"),
    ("two within 0.3 s do not", [A, A_UP, DEAD[0], ("a", Contact.REFUSED, 2.2)], "a1", "-", "published a1"),
    ("an answer in between acquits", [A, A_UP, DEAD[0], A_UP, DEAD[1]], "a1", "-", "published a1"),
    ("time-outs end nothing", [A, A_UP, ("a", Contact.UNREACHED, 2.0), ("a", Contact.SILENT, 9.0)], "a1", "-",
     "published a1"),
    ("a refusal of one that never answered means nothing", [A, *DEAD], "a1", "-", "published a1"),
    ("a conflict inherits", [A, A_UP, B, *DEAD], "b2", "-", "published a1, conflicted b2, retired a1, published b2"),
    ("a conflict that refuses is dropped", [B, ("b", Contact.UP, 1.0), A, *DEAD], "b1", "-",
     "published b1, conflicted a2, retired a2"),
    ("epochs go on after an end", [A, A_UP, *DEAD, A], "a2", "-", "published a1, retired a1, published a2"),
    ("another rank is another key", [A, A_UP, entry("b", rank=1)], "a1 b1", "-", "published a1, published b1"),
]
# fmt: on


def told(entries: dict[int, EngineEntry]) -> str:
    return " ".join(f"{entry.session}{entry.epoch}" for _, entry in sorted(entries.items())) or "-"


@pytest.mark.parametrize(
    ("steps", "live", "conflicts", "happened"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_sessions(steps, live, conflicts, happened):
    table, events = after(*steps)
    assert (told(table.live), told(table.conflicts), ", ".join(events)) == (live, conflicts, happened)


def test_sessions_published_before_a_moment_end_with_their_launch():
    table, _ = publish(EngineTable(), entry("old", at=10.0))
    table, _ = publish(table, entry("new", rank=1, at=20.0))
    table, events = retire_before(table, 15.0, "launch 1 was replaced")
    assert told(table.live) == "new1"
    assert [(e.entry.session, e.reason) for e in events] == [("old", "launch 1 was replaced")]
    _, events = publish(table, entry("next", at=30.0))
    assert events[-1].entry.epoch == 2


def test_a_refusing_session_is_asked_again():
    table, _ = publish(EngineTable(), A)
    seen = observe_sessions(table, {"a": Contact.REFUSED}, 1.0)
    assert seen.again == {"a"}
    assert seen.table.sessions() == {"a"}


def test_who_answers_for_the_first_time_is_told_apart():
    table, _ = publish(EngineTable(), A)
    first = observe_sessions(table, {"a": Contact.UP}, 1.0)
    assert [entry.session for entry in first.met] == ["a"]
    assert observe_sessions(first.table, {"a": Contact.UP}, 2.0).met == []


def test_what_is_known_of_a_session_is_stored_when_it_changes_and_only_then():
    table, _ = publish(EngineTable(), A)
    for contact in (Contact.UP, Contact.SILENT, Contact.STRANGER, Contact.UNREACHED):
        first = observe_sessions(table, {"a": contact}, 1.0)
        assert [entry.contact for entry in first.met] == [contact]
        table = first.table
        assert observe_sessions(table, {"a": contact}, 2.0).met == []


def test_one_that_takes_connections_and_does_not_answer_keeps_its_rank():
    table, _ = publish(EngineTable(), A)
    table = observe_sessions(table, {"a": Contact.SILENT}, 1.0).table
    assert table.live[0].living and table.live[0].greeted
    table, events = publish(table, entry("b"))
    assert told(table.live) == "a1" and [e.kind for e in events] == ["engine.conflicted"]


def test_another_program_at_the_port_of_one_that_answered_once_loses_it_the_rank():
    table, _ = publish(EngineTable(), A)
    # Of a kind that we do not know, perhaps: nobody takes its place for that.
    assert observe_sessions(table, {"a": Contact.STRANGER}, 1.0).table.live[0].living
    table = observe_sessions(table, {"a": Contact.UP}, 1.0).table
    table, _ = publish(table, entry("b"))
    seen = observe_sessions(table, {"a": Contact.STRANGER, "b": Contact.UP}, 2.0)
    assert told(seen.table.live).startswith("b")
    retired = next(event for event in seen.events if event.kind == "engine.retired")
    assert retired.reason == "another program holds its port, and session b claims its rank"
