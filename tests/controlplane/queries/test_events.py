"""Every kind of event is told as a sentence, and followed without gap or repetition."""

import inspect

import pytest
from django.db import connections, transaction

from controlplane.databases import FACTS
from controlplane.domain import engines
from controlplane.domain import events as happened
from controlplane.domain.topology import Topology
from controlplane.ledger.append import NewEvent, append
from controlplane.ledger.tail import EventRow, after
from controlplane.queries.events import TELL, sentence
from controlplane.queries.following import BATCH, Follower
from tests.controlplane.queries.world import World


def add(*kinds: str, instance: str = "a") -> int:
    with transaction.atomic(using=FACTS):
        return append([NewEvent(kind, instance) for kind in kinds])


def told(kind: str, data: dict) -> str:
    return sentence(EventRow(1, 0.0, kind, "a", "", "", data))


def test_every_kind_that_the_domain_knows_has_a_sentence():
    kinds = {
        found.kind
        for module in (happened, engines)
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, happened.Event) and found.kind
    }
    assert kinds <= set(TELL)
    assert {"instance.added", "instance.changed", "instance.retired", "request.made", "request.answered"} <= set(TELL)


def test_real_events_are_told_with_their_own_words(on_backend):
    world = World()
    world.launch(Topology(1, 1, 2, 1), first_port=4000)
    world.refuse(4001)
    said = [sentence(event) for event in after(0)]
    assert said == [
        "launch 1 began as current: dp 1, cp 1, tp 2, pp 1, 2 ranks expected",
        "dp0 cp0 tp0 pp0 registered at 10.0.0.1:4000 in launch 1",
        "dp0 cp0 tp1 pp0 registered at 10.0.0.1:4001 in launch 1",
        "dp0 cp0 tp0 pp0 of launch 1 answers",
        "dp0 cp0 tp1 pp0 of launch 1 answers",
        "launch 1 is complete",
        "dp0 cp0 tp1 pp0 left launch 1: greeted before, and 10.0.0.1:4001 refuses connections now",
        "/health answers 503 now: launch 1 served and lost dp0 cp0 tp1 pp0",
    ]


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (
            "instance.changed",
            {"name": "a", "own_port": 9102, "host_alias": None, "before": {"own_port": 9101, "host_alias": None}},
            "a was changed: own_port 9101 → 9102",
        ),
        (
            "request.made",
            {"request": 4, "kind": "evict", "slot": [0, 0, 1, 0]},
            "request 4: evict dp0 cp0 tp1 pp0",
        ),
        (
            "request.made",
            {"request": 5, "kind": "supersede", "slot": None},
            "request 5: put the candidate launch in charge",
        ),
        (
            "request.answered",
            {"request": 4, "kind": "evict", "granted": False, "answer": "nobody is there"},
            "request 4 (evict) was refused: nobody is there",
        ),
        ("moon.landed", {"x": 1}, 'moon.landed {"x":1}'),
        ("rank.left", {"unexpected": True}, 'rank.left {"unexpected":true}'),
    ],
)
def test_operators_events_have_sentences_and_unknown_ones_are_shown_as_they_are_stored(kind, data, said):
    assert told(kind, data) == said


def test_a_follower_sees_everything_once_in_order(on_backend):
    add("before.one")
    present, past = Follower(), Follower(after=0)
    assert present.poll().events == []
    assert [e.kind for e in past.poll().events] == ["before.one"]
    add("then.two", "then.three")
    for follower in (present, past):
        assert [e.kind for e in follower.poll().events] == ["then.two", "then.three"]
        assert follower.poll().events == []


def test_a_follower_reads_a_long_past_in_pieces(on_backend):
    add(*["many"] * (BATCH + 3))
    follower = Follower(after=0)
    first = follower.poll()
    assert (len(first.events), first.more) == (BATCH, True)
    assert [e.revision for e in follower.poll().events] == [BATCH + 1, BATCH + 2, BATCH + 3]


def test_a_follower_can_choose_instance_and_kind_and_does_not_stop_at_what_it_skips(on_backend):
    follower = Follower(after=0, instance="a", kinds=["x.one"])
    add("x.one", "x.two")
    add("x.one", instance="b")
    assert [e.revision for e in follower.poll().events] == [1]
    assert follower.cursor.revision == 3


def test_a_ledger_that_was_replaced_is_noticed_and_followed_from_there(on_backend):
    follower = Follower(after=0)
    add("x.one", "x.two")
    follower.poll()
    with connections[FACTS].cursor() as cursor:
        cursor.execute("DELETE FROM controlplane_event WHERE revision > 1")
        cursor.execute("UPDATE controlplane_ledgerhead SET revision = 1")
    assert follower.poll().replaced
    add("x.three")
    assert [(e.revision, e.kind) for e in follower.poll().events] == [(2, "x.three")]
    with connections[FACTS].cursor() as cursor:
        cursor.execute("UPDATE controlplane_ledgerhead SET ledger_id = 'another'")
    assert follower.poll().replaced
