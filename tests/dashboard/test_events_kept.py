"""The Events page of a ledger whose beginning is not kept: it says so, and tells what is kept as before."""

import time

from controlplane.commands import compaction
from controlplane.databases import FACTS
from controlplane.ledger.tail import head
from controlplane.models import Event, StoredState
from tests.dashboard.conftest import text_of
from tests.dashboard.test_events import filled


def compacted(at: int) -> None:
    """Everything before this revision went because it was old."""
    filled()
    compaction.store_state(now=time.time())
    moved = Event.objects.using(FACTS).get(revision=at).at
    StoredState.objects.using(FACTS).update(revision=at, at=moved)
    Event.objects.using(FACTS).filter(revision__lt=at).delete()


def test_the_list_ends_where_the_ledger_begins_and_says_so(viewer):
    compacted(4)
    html = viewer.get("/events/")
    said = text_of(html)
    assert f"4 to {head().revision}; older ones are not kept" in said
    assert "Events before that are not kept any more." in viewer.text("/events/?before=4")
    assert "older ones are not kept" not in viewer.text("/events/?kind=intent.changed")


def test_the_fleet_before_the_beginning_is_refused_with_a_sentence_and_one_event_says_why_it_cannot_be_told(viewer):
    compacted(4)
    for path in ("/events/fleet/?as_of=2", "/events/fleet/?as_of=2020-01-01T00:00:00Z"):
        assert "he ledger is kept from revision 4" in viewer.text(path, status=410)
    assert "cannot be told any more" in viewer.text("/events/4/", parts="one")
    assert viewer.text(f"/events/fleet/?as_of={head().revision}")
