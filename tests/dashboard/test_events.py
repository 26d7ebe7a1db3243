"""The Events page: what it finds, what one event turned, the fleet as it was, and files of it."""

import csv
import io
import json

import pytest
from django.db import transaction

from controlplane.commands import gateways, intent
from controlplane.databases import FACTS
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.append import NewEvent, append
from controlplane.ledger.tail import head, latest
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries, text_of

SMALL = Topology(1, 1, 4, 1)
SCRIPT = "<script>alert(1)</script>"


def added(name: str) -> World:
    """An instance whose beginning the ledger tells, as the commands do."""
    world = World(name, ago=120)
    data = {"name": name, "role": "prefill", "own_port": None, "host_alias": None, "engine_url": "", "version": 1}
    with transaction.atomic(using=FACTS):
        append([NewEvent("instance.added", name, data, "anna")])
    return world


def filled(topology: Topology = SMALL) -> World:
    world = added("prefill-a")
    world.launch(topology, first_port=5000, token="a")
    intent.cordon("prefill-a", actor="anna", reason=f"kernel {SCRIPT}")
    return world


def revision_of(kind: str) -> int:
    return latest(1, kinds=[kind])[0].revision


def test_it_shows_what_happened_with_both_sides_who_and_why(viewer):
    filled()
    said = viewer.text("/events/")
    assert "intent.changed prefill-a enabled cordoned anna" in said
    assert SCRIPT not in viewer.get("/events/") and SCRIPT in said
    assert f"gapless up to {head().revision}" in said


def test_runs_fold_and_the_rows_behind_are_there(viewer):
    filled()
    html = viewer.get("/events/")
    assert "3 more rank.registered" in text_of(html)
    assert html.count('data-key="') == head().revision


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("q=instance:prefill-a+kind:intent", {"intent.changed"}),
        ("q=instance:nobody", set()),
        ("kind=launch", {"launch.opened", "launch.completed"}),
        ("who=anna&kind=intent", {"intent.changed"}),
        ("who=anna", {"instance.added", "intent.changed"}),
        ("who=*", {"instance.added", "intent.changed"}),
        ("q=kernel", {"intent.changed"}),
        ("q=10.0.0.1+since:1h", {"rank.registered"}),
        ("until=1970-01-02", set()),
        ("since=15m&kind=intent", {"intent.changed"}),
    ],
)
def test_filters_narrow_it(viewer, query, kinds):
    filled()
    document = json.loads(viewer.get(f"/events/export.json?{query}"))
    found = {item["kind"] for item in document["items"]}
    assert found == kinds


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/events/?q=since:xyz", 400, "is no time"),
        ("/events/?kind=moon", 400, "There is no kind of event"),
        ("/events/?before=x", 400, "a whole number"),
        ("/events/?event=99999999999999999999", 400, "a whole number"),
        ("/events/?event=9999", 404, "has no event 9999"),
        ("/events/9999/", 404, "has no event 9999"),
        ("/events/99999999999999999999/", 400, "a whole number"),
        ("/events/0/", 404, "has no event 0"),
        ("/events/?since=1h&until=2h", 400, "Since must be before until"),
        ("/events/?at=nonsense", 400, "is no time"),
        ("/events/?at=1970-01-02", 404, "Nothing had happened yet"),
        ("/events/fleet/", 400, "Say as of when"),
        ("/events/fleet/?as_of=9999", 400, "does not exist"),
        ("/events/fleet/?as_of=1&with=9999", 400, "does not exist"),
        ("/events/export.csv?q=until:soon", 400, "is no time"),
    ],
)
def test_what_makes_no_sense_is_a_page_with_a_sentence(viewer, path, status, said):
    filled()
    assert said in viewer.text(path, status=status)


def test_one_event_says_what_was_before_what_after_and_who_knows(viewer):
    filled()
    gateways.join("gw-1", actor="token:gw")
    revision = revision_of("intent.changed")
    said = viewer.text(f"/events/{revision}/", parts="one")
    assert "What Before After intent before: enabled after: cordoned" in said
    assert "gw-1 has not acknowledged it" in said
    now = head()
    gateways.acknowledge("gw-1", now.ledger_id, now.revision)
    assert "gw-1 has acknowledged it" in viewer.text(f"/events/{revision}/", parts="one")
    assert '"after": "cordoned"' in viewer.text(f"/events/{revision}/?show=json", parts="one")


def test_an_event_before_which_there_was_nothing_and_one_that_turns_nothing(viewer):
    filled()
    assert "launch 1 number – after: 1" in viewer.text("/events/?event=2", parts="one")
    with transaction.atomic(using=FACTS):
        revision = append([NewEvent("listener.opened", "prefill-a", {"port": 9000})])
    assert "It changes nothing of the fleet's state" in viewer.text(f"/events/?event={revision}", parts="one")
    World("stray", ago=60).put(Slot(0, 0, 0, 0), SMALL, port=7000)
    said = viewer.text(f"/events/?event={head().revision}", parts="one")
    assert "What was before is not known: no event before it says that stray was added" in said


def test_a_link_to_an_old_event_shows_it_among_its_neighbours(viewer):
    world = filled()
    for _ in range(60):
        world.probe(Contact.SILENT, 5000)
        world.probe(Contact.SILENT, 5000)
        world.probe(Contact.UP, 5000)
    html = viewer.get("/events/5/", parts="events")
    assert 'id="e5"' in html and 'class="sel"' in html and 'id="e17"' in html and 'id="e18"' not in html
    assert "/events/?after=" in html


def test_a_time_leads_to_the_event_that_was_the_last_one_then(viewer):
    filled()
    answer = viewer.client.get("/events/?at=0s&kind=intent")
    assert (answer.status_code, answer["Location"]) == (302, f"/events/{head().revision}/?kind=intent")


def test_older_and_newer_pages_meet_without_a_gap(viewer):
    world = filled()
    for number in range(150):
        world.probe(Contact.UP if number % 2 else Contact.SILENT, 5000)
        world.probe(Contact.UP if number % 2 else Contact.SILENT, 5000)
    from dashboard.presenters.sought import Asked
    from dashboard.views.events import look

    first = look(Asked(), limit=40)
    second = look(Asked(), before=first.older, limit=40)
    back = look(Asked(), after=second.newer, limit=40)
    assert [row.revision for row in first.items] == [row.revision for row in back.items]
    assert first.items[-1].revision == second.items[0].revision + 1
    assert first.newer is None


def test_a_search_that_no_index_helps_reads_a_bounded_piece_and_says_so(viewer, monkeypatch):
    from controlplane.queries import searching

    filled()
    monkeypatch.setattr(searching, "WINDOW", 3)
    said = viewer.text("/events/?kind=launch.opened")
    assert f"looked back to revision {head().revision - 2} only" in said and "Look further back" in said


def test_the_fleet_as_it_was_and_against_now(viewer):
    world = filled()
    before = revision_of("intent.changed") - 1
    world.refuse(5000)
    said = viewer.text(f"/events/fleet/?as_of={before}")
    assert f"Fleet as of {before}" in said and "4/4" in said and "4 up" in said and "enabled" in said
    against = viewer.text(f"/events/fleet/?as_of={before}&with=now")
    assert "prefill-a intent before: enabled after: cordoned" in against
    assert "Nothing differs" in viewer.text(f"/events/fleet/?as_of={head().revision}&with=now")
    assert "There was no instance then" in viewer.text("/events/fleet/?as_of=0")
    assert "No instance was named x then" in viewer.text(f"/events/fleet/?as_of={before}&instance=x")


def test_the_fleet_as_it_was_has_nothing_that_lives_but_the_frame(viewer):
    filled()
    html = viewer.get("/events/fleet/?as_of=3")
    assert html.count("data-part=") == 1 and 'data-as-of="3"' in html


def test_files_say_whether_they_are_whole_and_hold_no_formulas(viewer, monkeypatch):
    filled()
    intent.uncordon("prefill-a", actor="anna", reason="=HYPERLINK(1)")
    rows = list(csv.DictReader(io.StringIO(viewer.get("/events/export.csv"))))
    assert len(rows) == head().revision and rows[0]["reason"] == "'=HYPERLINK(1)"
    monkeypatch.setattr("dashboard.views.event_files.MOST", 2)
    assert "only 2 are in this file" in viewer.get("/events/export.csv")
    document = json.loads(viewer.get("/events/export.json"))
    assert document["more"] and len(document["items"]) == 2 and document["revision"] == head().revision


def test_files_are_for_whoever_may_read(stranger, nobody):
    assert stranger.client.get("/events/export.csv").status_code == 302
    nobody.get("/events/export.json", status=403)


QUERIES = {
    "/events/": 13,
    "/events/?event=12": 19,
    "/events/12/": 21,
    "/events/fleet/?as_of=12&instance=prefill-a": 15,
    "/events/fleet/?as_of=12&with=now&instance=prefill-a": 26,
    "/events/export.json?kind=intent": 5,
    "/palette/?q=prefill": 8,
}


def test_its_queries_and_bytes_do_not_depend_on_how_many_ranks_and_events_there_are(viewer):
    filled()
    few = {path: asked_twice(viewer, path) for path in QUERIES}
    for name in ("prefill-b", "prefill-c"):
        added(name).launch(Topology(2, 1, 64, 1), first_port=6000, token="b")
    many = {path: asked_twice(viewer, path) for path in QUERIES}
    assert {path: count for path, (count, _) in few.items()} == QUERIES
    assert {path: count for path, (count, _) in many.items()} == QUERIES
    assert max(size for _, size in many.values()) < 200_000


def asked_twice(viewer, path: str) -> tuple[int, int]:
    """How many queries and bytes it takes when what never changes was read before."""
    viewer.get(path)
    with queries() as found:
        size = len(viewer.get(path))
    return len(found), size


def test_one_event_of_a_large_fleet_is_told_from_its_own_instance_alone(viewer):
    filled()
    revision = revision_of("intent.changed")
    added("other").launch(Topology(2, 1, 64, 1), first_port=6000, token="b")
    with queries() as found:
        viewer.get(f"/events/?event={revision}", parts="one")
    read = [sql for sql in found if "instance" in sql and "ORDER BY" in sql and "IN ('prefill-a', '')" in sql]
    assert read and len(found) <= 16, "\n".join(found)
