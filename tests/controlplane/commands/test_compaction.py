"""Old events go, and whatever is still told of the past is what the tables were then."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connections

from controlplane.commands import compaction, trimming
from controlplane.commands.compaction import compact, store_state
from controlplane.commands.trimming import Budget
from controlplane.databases import FACTS
from controlplane.domain import retention
from controlplane.domain.errors import Refused
from controlplane.domain.retention import DAY, Stored, cut, is_due
from controlplane.domain.topology import Topology
from controlplane.ledger import hub, position, tail
from controlplane.models import Event, StoredPart, StoredState, Trimmed
from controlplane.queries import history, kept, state, turned
from controlplane.tasks.retention import compact_ledger
from tests.controlplane.queries.whole_fleet import WholeFleet

PAIR = Topology(1, 1, 2, 1)
OLD = 100 * DAY


@pytest.fixture
def lived(on_backend) -> dict[int, dict]:
    """A fleet to which much has happened, and its state after each step, as read from the tables then."""
    fleet, then = WholeFleet(), {}
    steps = [
        lambda: fleet.add("a"),
        lambda: fleet.launch("a", PAIR, 4001, token="t"),
        lambda: fleet.join("g1", "http://g1.example"),
        lambda: fleet.add("b", "decode"),
        lambda: fleet.breaker("g1", "a", "open"),
        lambda: fleet.publish("a", 0, "10.0.0.1:7001", "x"),
        lambda: fleet.operate("drain", "a", 0),
        lambda: fleet.router("add", "r", "a"),
        lambda: fleet.operate("cordon", "b"),
        lambda: fleet.retire("b"),
        lambda: fleet.purge("b"),
        lambda: fleet.launch("a", PAIR, 5001, token="u"),
        lambda: fleet.leave("g1"),
    ]
    for step in steps:
        step()
        cursor, read = state.fleet_state()
        then[cursor.revision] = read
    return then


def age(upto: int, seconds: float = OLD) -> None:
    """Events up to this revision, and the states stored there, happened so long ago."""
    now = time.time()
    for model in (Event, StoredState):
        rows = model.objects.using(FACTS).filter(revision__lte=upto)
        for pk in rows.values_list("revision", flat=True):
            rows.filter(revision=pk).update(at=now - seconds + pk / 1000)


def first() -> int:
    return tail.first()


def stored_at(revision: int, read: dict) -> None:
    """As if the state had been stored when this was the head."""
    parts = compaction._parts(read)
    StoredPart.objects.using(FACTS).bulk_create(
        StoredPart(revision=revision, instance=name, compressed=body) for name, body in parts
    )
    at = Event.objects.using(FACTS).get(revision=revision).at
    StoredState.objects.using(FACTS).create(revision=revision, at=at, stored_at=at, parts=len(parts), size_bytes=1)


def check_told(then: dict[int, dict], since: int) -> None:
    for revision, read in then.items():
        if revision >= since:
            assert state.as_of(revision) == read, revision
            for name in ("a", "b"):
                known = {name: read["instances"][name]} if name in read["instances"] else {}
                assert state.as_of(revision, name)["instances"] == known
        else:
            with pytest.raises(Refused, match=f"the ledger is kept from revision {first()} ") as gone:
                state.as_of(revision)
            assert gone.value.code == "cursor_gone"


def test_as_of_is_right_from_the_compaction_on_and_says_so_before(lived):
    revisions = sorted(lived)
    for revision in revisions[3::3]:
        stored_at(revision, lived[revision])
    check_told(lived, 0)
    cut_at = revisions[6]
    age(cut_at)
    done = compact(now=time.time())
    assert (first(), done.events, done.states) == (cut_at, cut_at - 1, 1)
    assert not StoredPart.objects.using(FACTS).filter(revision__lt=cut_at).exists()
    check_told(lived, cut_at)
    assert kept.first_event()[0] == cut_at
    assert Trimmed.objects.using(FACTS).get(subject="events").total == cut_at - 1


def test_a_round_that_stops_half_way_leaves_nothing_wrong_and_the_next_goes_on(lived, monkeypatch):
    monkeypatch.setattr(compaction, "CHUNK", 3)
    revisions = sorted(lived)
    stored_at(revisions[2], lived[revisions[2]])
    stored_at(revisions[9], lived[revisions[9]])
    age(revisions[9])
    assert compact(now=time.time(), budget=Budget(0)).events == 3
    assert first() == 4
    check_told(lived, revisions[9])
    compact(now=time.time())
    assert first() == revisions[9]
    check_told(lived, revisions[9])
    assert compact(now=time.time()).events == 0


def test_the_head_is_stored_and_from_there_on_little_is_replayed(lived, monkeypatch):
    head = max(lived)
    assert compact(now=time.time()).stored == head
    assert compact(now=time.time()).stored is None
    assert [(s.revision, s.parts) for s in StoredState.objects.using(FACTS).all()] == [(head, 2)]
    monkeypatch.setattr(state, "MOST_REPLAYED", 1)
    assert state.as_of(head) == lived[head]
    fleet = WholeFleet()
    fleet.operate("cordon", "a")
    assert state.as_of(head + 1) == state.fleet_state()[1]
    with pytest.raises(Refused, match="telling this takes"):
        state.as_of(head - 1)


def test_two_rounds_at_once_store_the_same_and_delete_nothing_twice(lived):
    head = max(lived)
    assert store_state(now=time.time()) == store_state(now=time.time()) == head
    assert StoredPart.objects.using(FACTS).filter(revision=head).count() == 2
    age(head)
    compact(now=time.time()), compact(now=time.time())
    assert first() == head
    assert state.as_of(head) == lived[head]


def test_nothing_goes_while_it_is_young_or_kept_for_ever(lived, monkeypatch):
    head = max(lived)
    store_state(now=time.time())
    assert compact(now=time.time()).events == 0
    age(head)
    monkeypatch.setattr(settings, "PDCP_KEEP_EVENTS_DAYS", 0)
    assert compact(now=time.time()).events == 0
    assert first() == 1
    monkeypatch.setattr(settings, "PDCP_KEEP_EVENTS_DAYS", 99)
    assert compact(now=time.time()).events == head - 1
    check_told(lived, head)


def test_a_reader_from_before_gets_a_refusal_or_a_new_snapshot_and_one_from_there_goes_on(lived):
    head = max(lived)
    cut_at = sorted(lived)[5]
    stored_at(cut_at, lived[cut_at])
    ledger = tail.head().ledger_id
    old = position.Position(ledger, 2)
    age(cut_at)
    exact = history.position_of(tail.Cursor(ledger, cut_at))
    compact(now=time.time())
    for asked in (old, position.Position(ledger, cut_at - 2)):
        with pytest.raises(Refused) as gone:
            history.after(asked, history.Wanted(), limit=10)
        assert gone.value.code == "cursor_gone"
    assert exact.mark
    page = history.after(exact, history.Wanted(), limit=1000)
    assert [event.revision for event in page.items] == list(range(cut_at + 1, head + 1))
    told = turned.turned(cut_at)
    assert told.before is None and "cannot be told any more" in told.untold
    assert not turned.turned(cut_at + 1).untold
    # The live reader loads the latest events only; a position before them is answered with a snapshot.
    one = hub.Hub(redis_url="")
    found = hub.Looker().look(None)
    one._events.extend(found.events)
    one.position = found.head
    assert one.stand(old) is hub.Stand.ELSEWHERE
    assert one.stand(exact) is hub.Stand.BEHIND


def test_a_moment_is_found_by_halving_and_clocks_may_differ_a_little(on_backend):
    fleet = WholeFleet()
    fleet.add("a")
    for _ in range(30):
        fleet.operate("cordon", "a"), fleet.operate("uncordon", "a")
    head = tail.head().revision
    # Event 20 is written by a clock that is 2 s behind, 21 by one that is 2 s ahead.
    moments = {n: 1000.0 + n + {20: -2, 21: 2}.get(n, 0) for n in range(1, head + 1)}
    for revision, at in moments.items():
        Event.objects.using(FACTS).filter(revision=revision).update(at=at)
    for at in [999.0, 1000.5, *(moments[n] for n in range(1, head + 1)), 1018.2, 1022.7, 9999.0]:
        right = max((n for n, written in moments.items() if written <= at), default=0)
        assert state.revision_at(at) == right, at


def test_a_moment_before_what_is_kept_is_refused_and_one_after_it_is_told(lived):
    cut_at = sorted(lived)[4]
    stored_at(cut_at, lived[cut_at])
    age(cut_at)
    compact(now=time.time())
    oldest = kept.first_event()[1]
    with pytest.raises(Refused, match="what was then cannot be told any more") as gone:
        state.state_at(oldest - 1)
    assert gone.value.code == "cursor_gone"
    assert state.state_at(oldest) == (cut_at, lived[cut_at])
    # As an edge of a search it only narrows nothing.
    assert state.revision_at(oldest - 1) == 0


def test_what_an_older_version_stored_lacks_fields_and_is_read_all_the_same(lived):
    head = max(lived)
    store_state(now=time.time())
    part = StoredPart.objects.using(FACTS).get(revision=head, instance="a")
    said = kept.opened(part.compressed)
    del said["breakers"]
    StoredPart.objects.using(FACTS).filter(pk=part.pk).update(compressed=kept.packed(said))
    assert state.as_of(head, "a")["instances"]["a"]["breakers"] == {}


def test_the_task_may_run_on_an_empty_ledger_and_twice(on_backend):
    Event.objects.using(FACTS).all().delete()
    compact_ledger()
    compact_ledger()
    assert not StoredState.objects.using(FACTS).exists()


@pytest.mark.parametrize(
    ("head", "newest", "now", "keep", "due"),
    [
        (0, None, 0.0, 0, False),
        (1, None, 0.0, 0, True),
        (10, Stored(10, 0.0), 100 * DAY, DAY, False),
        (11, Stored(10, 0.0), DAY - 1, 90 * DAY, False),
        (11, Stored(10, 0.0), DAY, 90 * DAY, True),
        (11, Stored(10, 0.0), DAY, 0, True),
        # Kept for two days only: stored four times a day, so that events go nearly when they should.
        (11, Stored(10, 0.0), DAY / 4, 2 * DAY, True),
        (10 + retention.STATE_EVERY_EVENTS, Stored(10, 0.0), 1.0, 90 * DAY, True),
    ],
)
def test_a_state_is_stored_after_many_events_or_a_while(head, newest, now, keep, due):
    assert is_due(head=head, newest=newest, now=now, keep_seconds=keep) is due


def test_the_cut_is_at_the_newest_state_that_is_old_enough():
    states = [Stored(10, 100.0), Stored(20, 200.0), Stored(30, 300.0)]
    assert cut(states, now=299.0, keep_seconds=100) == 10
    assert cut(states, now=300.0, keep_seconds=100) == 20
    assert cut(states, now=150.0, keep_seconds=100) is None
    assert cut(states, now=9999.0, keep_seconds=0) is None


def test_pieces_are_no_larger_than_they_may_be(lived, monkeypatch):
    monkeypatch.setattr(trimming, "CHUNK", 2)
    gone = trimming.delete("controlplane_event", "revision < %s", [6], budget=Budget(0), key="revision")
    assert (gone, first()) == (2, 3)
    gone = trimming.delete("controlplane_event", "revision < %s", [6], budget=Budget(5), key="revision")
    assert (gone, first()) == (3, 6)


def test_who_reads_a_stored_state_while_it_goes_has_all_of_it(lived, monkeypatch):
    revisions = sorted(lived)
    stored_at(revisions[2], lived[revisions[2]])
    stored_at(revisions[9], lived[revisions[9]])
    opened = kept._state

    def late(revision, instance):
        # Between the word that it is there and its parts.
        with ThreadPoolExecutor(1) as other:
            other.submit(drop).result()
        return opened(revision, instance)

    def drop():
        try:
            compaction._drop_states(revisions[9], Budget())
        finally:
            connections.close_all()

    monkeypatch.setattr(kept, "_state", late)
    assert state.as_of(revisions[4]) == lived[revisions[4]]
    assert not StoredState.objects.using(FACTS).filter(revision=revisions[2]).exists()


def test_parts_of_a_state_that_another_round_is_storing_stay_and_those_of_one_that_died_go(lived):
    revisions = sorted(lived)
    for revision in (revisions[5], revisions[9]):
        stored_at(revision, lived[revision])
    for begun in (revisions[2], revisions[7]):
        StoredPart.objects.using(FACTS).create(revision=begun, instance="", compressed=b"x")
    age(revisions[5])
    compact(now=time.time())
    left = StoredPart.objects.using(FACTS).filter(compressed=b"x").values_list("revision", flat=True)
    assert list(left) == [revisions[7]]
