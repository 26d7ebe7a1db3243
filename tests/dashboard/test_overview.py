"""The overview: what it says, how it is narrowed and paged, that it costs the same however large the fleet is."""

import csv
import io
import json
import time

import pytest

from controlplane.commands import drains, instances, intent, routers
from controlplane.commands.transaction import record
from controlplane.databases import FACTS
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.append import NewEvent
from controlplane.models import Lease, OpenRooms, Router
from controlplane.queries import attention, memo
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries, text_of
from tests.dashboard.many import many

TP4, DP2 = Topology(1, 1, 4, 1), Topology(2, 1, 2, 1)
WHOLE_PAGE = 39
AGAIN = 12
"""Queries while nothing has changed: who asks, the frame, the counters, and the rows that are shown."""

MOST_BYTES = 260_000


@pytest.fixture(autouse=True)
def _nothing_is_remembered(on_backend):
    forget()


def forget() -> None:
    memo.forget()
    attention.forget()


def serving(name: str = "prefill-a", topology: Topology = DP2, first_port: int = 4000) -> World:
    world = World(name)
    world.launch(topology, first_port=first_port)
    return world


def lead(at: float | None = None) -> None:
    Lease.objects.using(FACTS).filter(name="bootstrap").update(token=1, holder="a", expires_at=at or time.time())


def row_of(html: str, name: str) -> str:
    start = html.index(f'<tr data-key="{name}"')
    return html[start : html.index("</tr>", start)]


def test_an_empty_fleet_teaches_the_exact_commands_for_where_it_is_asked(operator):
    lead()
    html = operator.get("/")
    said = text_of(html)
    assert "No instance has registered yet" in said and "waiting" in said
    assert "curl -X PUT http://localhost:8998/i/ try-1 /route" in said
    assert "python manage.py simulate" in said and "--disaggregation-bootstrap-port 8998" in said
    assert "127.0.0.1, which other hosts cannot reach" in said
    assert "listening" in said and "nobody leads" not in said
    # Nothing else stands in the way: no counters, no table.
    assert "Ranks routable" not in said and "Needs attention" not in said


def test_an_empty_fleet_says_who_knocked_and_was_refused(operator):
    lead()
    data = {"what": "PUT /route", "source": "10.4.1.21", "sentence": "the body has no field page_size <script>"}
    record(lambda: (None, [NewEvent("registration.refused", "default", data)]))
    html = operator.get("/")
    assert "PUT /route from 10.4.1.21 : the body has no field page_size <script>. Nothing was stored." in text_of(html)
    assert "<script>" not in html


def test_a_request_that_named_nobody_is_told_of_the_shared_listener(operator):
    serving()
    lead()
    data = {"what": "PUT /route", "source": "10.4.1.21", "sentence": "2 instances share this listener (a, b): name one"}
    record(lambda: (None, [NewEvent("registration.refused", "", data)]))
    said = operator.text("/")
    assert "shared listener was asked without a name" in said and "2 instances share this listener" in said
    assert "refused PUT /route from 10.4.1.21" in operator.text("/events/?kind=registration.refused")


def test_nobody_leads_is_said_first_even_of_an_empty_fleet(operator):
    said = operator.text("/")
    assert "The bootstrap process does not lead" in said and "nobody leads" in said


def test_a_row_says_what_is_wanted_and_what_is_seen_and_how_much_of_it_is_routable(operator):
    serving()
    drains.drain("prefill-a", group=1, actor="anna", reason="new driver")
    row = row_of(operator.get("/"), "prefill-a")
    said = text_of(row)
    assert "draining dp1" in said and " up " in f" {said} "
    assert "2 /4" in said and 'class="tone t-want"' in row
    assert 'aria-label="2 routable, 2 draining"' in row
    assert "Open drain" in said


def test_a_broken_instance_is_down_and_what_is_left_of_it_is_not_green(operator):
    world = serving()
    world.refuse(4003)
    html = operator.get("/")
    row = row_of(html, "prefill-a")
    assert "down" in text_of(row) and "0 /4" in text_of(row)
    assert 'aria-label="3 there, not routable, 1 down"' in row
    assert 'title="launch 1 is not complete: 3/4, missing dp1 tp1"' in row
    assert "takes no requests: 1 of its 4 ranks is gone" in text_of(html)
    assert text_of(html).count("down") >= 2 and html.count("solid") == 1


def test_a_rank_that_hangs_is_counted_and_marked(operator):
    serving().probe(Contact.SILENT, 4001)
    row = row_of(operator.get("/"), "prefill-a")
    assert "degraded · 1 silent" in text_of(row)
    assert 'aria-label="3 routable, 1 do not answer"' in row


def test_a_launch_that_fills_counts_in_its_row_and_in_the_counters(operator):
    world = World("prefill-a", ago=5.0)
    world.launch(DP2, first_port=4000, skip=1)
    html = operator.get("/")
    assert "3/4" in text_of(row_of(html, "prefill-a"))
    assert "Launches filling 1 prefill-a 1: 3/4" in text_of(html)


def test_what_a_counter_counts_is_in_the_list_that_it_leads_to(operator):
    world = serving("prefill-a", DP2)
    serving("prefill-b", first_port=5000)
    world.put(Slot(0, 0, 0, 0), DP2, port=6000, token="second")
    assert "Launches filling 1 prefill-a 2: 1/4" in operator.text("/", parts="counters")
    assert 'href="/?q=launch:filling"' in operator.get("/", parts="counters")
    found = operator.get("/?q=launch:filling", parts="instances")
    assert 'data-key="prefill-a"' in found and 'data-key="prefill-b"' not in found
    assert 'data-key="prefill-a"' in operator.get("/?q=launch:cand", parts="instances")
    # One DP group less: the instance still takes requests, and is the first of those that the counter leads to.
    intent.cordon("prefill-a", group=1, actor="anna", reason="a look")
    assert "2 by intent" in operator.text("/", parts="counters")
    assert 'href="/?sort=ready"' in operator.get("/", parts="counters")
    instances.add("prefill-z", role="prefill", actor="anna")
    lacking = operator.get("/?sort=ready", parts="instances")
    places = [lacking.index(f'data-key="{name}"') for name in ("prefill-z", "prefill-a", "prefill-b")]
    assert places == sorted(places)


def test_a_router_counts_as_current_only_when_it_was_asked_and_is_in_step(operator):
    serving()
    routers.add("r1", "http://127.0.0.1:29999", ["prefill-a"], actor="anna")
    forget()
    assert "Gateways current 0 / 1 r1 not asked yet" in operator.text("/", parts="counters")
    Router.objects.using(FACTS).update(state="in_step", checked_at=time.time(), problem="it would not take prefill-a")
    forget()
    assert "Gateways current 0 / 1 r1 not in step" in operator.text("/", parts="counters")
    Router.objects.using(FACTS).update(problem="")
    forget()
    assert "Gateways current 1 / 1 all follow" in operator.text("/", parts="counters")


def test_open_requests_stand_in_the_row_with_their_age_when_it_is_old(operator):
    serving()
    now = time.time()
    given = {"instance": "prefill-a", "launch_token": "", "received_at": now}
    rows = [("gateway", "g1", -1, 7, now - 120), ("gateway", "g2", -1, 5, now), ("worker", "w1", 0, 99, now)]
    for kind, source, group, count, at in rows:
        OpenRooms.objects.using(FACTS).create(
            kind=kind, source=source, group=group, open_rooms=count, taken_at=at, **given
        )
    assert "12 2m" in text_of(row_of(operator.get("/"), "prefill-a"))


def test_it_is_narrowed_by_what_is_wanted_seen_and_called(operator):
    serving("prefill-a", first_port=4000)
    serving("prefill-b", first_port=5000)
    instances.add("decode-a", role="decode", actor="anna")
    intent.cordon("prefill-b", actor="anna", reason="a look")

    def shown(q: str) -> list[str]:
        html = operator.get("/", parts="instances") if not q else operator.get(f"/?q={q}", parts="instances")
        return [name for name in ("decode-a", "prefill-a", "prefill-b") if f'<tr data-key="{name}"' in html]

    assert shown("") == ["decode-a", "prefill-a", "prefill-b"]
    assert shown("state:cordoned") == shown("desired:cord") == shown("intent:cordoned") == ["prefill-b"]
    assert shown("role:prefill+-state:cordoned") == ["prefill-a"]
    assert shown("observed:up") == ["prefill-a", "prefill-b"]
    assert shown("routable:no") == ["prefill-b"]
    assert shown("FILL-A") == ["prefill-a"]
    assert shown("10.4.1.22:30000") == []
    # Where its ranks are, and were: of a host that is gone all of them may have left.
    assert shown("10.0.0.1") == shown("10.0.0") == ["prefill-a", "prefill-b"]
    assert shown("10.0.0.1:4000") == ["prefill-a"] and shown("-10.0.0.1:4000") == ["decode-a", "prefill-b"]
    assert shown("10.0.0.11") == []
    assert shown("state:") == ["decode-a", "prefill-a", "prefill-b"]


def test_who_was_on_a_host_that_is_gone_is_found_by_it_in_the_list_and_in_the_file(operator):
    serving("prefill-a", first_port=4000).refuse(*range(4000, 4004))
    instances.add("decode-a", role="decode", actor="anna")
    assert 'data-key="prefill-a"' in operator.get("/?q=10.0.0.1", parts="instances")
    assert "prefill-a" in operator.get("/instances.csv?q=10.0.0.1")
    assert "decode-a" not in operator.get("/instances.csv?q=10.0.0.1")


def test_nothing_found_says_which_words_narrow_and_repeats_what_was_typed_harmlessly(operator):
    serving()
    html = operator.get("/?q=%3Cscript%3E")
    assert "No instance matches <script>" in text_of(html) and "<script>&" not in html
    assert "&lt;script&gt;" in html and "state: with what is wanted" in text_of(html)


def test_retired_instances_are_counted_and_shown_to_whoever_asks_for_them(operator):
    serving("prefill-a")
    serving("prefill-b", first_port=5000)
    instances.retire("prefill-b", actor="anna", reason="old")
    html = operator.get("/")
    assert "1 of 1" in text_of(html) and "1 retired" in text_of(html)
    assert 'data-key="prefill-b"' not in html
    assert 'data-key="prefill-b"' in operator.get("/?q=state:retired")


def test_pages_lead_on_and_back_and_a_sort_is_kept(operator):
    lead()
    many(230, Topology(1, 1, 1, 1))

    def names(html: str) -> list[str]:
        return [part.split('"', 1)[0] for part in html.split('<tr data-key="')[1:]]

    first = operator.get("/?sort=-name")
    assert names(first)[0] == "prefill-0229" and len(names(first)) == 100
    assert "1–100 of 230" in text_of(first)
    second = operator.get("/?sort=-name&after=0.prefill-0130")
    assert (names(second)[0], names(second)[-1]) == ("prefill-0129", "prefill-0030")
    assert "101–200 of 230" in text_of(second)
    assert "sort=-name&amp;after=0.prefill-0030" in second and "sort=-name&amp;before=0.prefill-0129" in second
    back = operator.get("/?sort=-name&before=0.prefill-0129")
    assert names(back) == names(first)
    # Whoever was behind it is gone meanwhile: the last page there is.
    assert names(operator.get("/?after=0.zzz"))[-1] == "prefill-0229"
    assert len(names(operator.get("/?sort=ready"))) == len(names(operator.get("/?sort=launch"))) == 100


@pytest.mark.parametrize(
    "query", ["sort=size", "after=x", "after=1", "attention=some", f"q={'x' * 201}", "q=a%00b", "after=0.a&before=0.b"]
)
def test_what_makes_no_sense_is_a_page_with_a_sentence(operator, query):
    serving()
    assert "Request" in operator.text(f"/?{query}", status=400)


def test_a_viewer_sees_everything_and_can_do_nothing(viewer, operator):
    serving()
    html = viewer.get("/")
    assert "data-select" not in html and "data-bulk" not in html
    row = row_of(html, "prefill-a")
    assert 'aria-disabled="true"' in row and "needs the role operator" in text_of(row) and "data-act" not in row
    assert "data-act" in row_of(operator.get("/"), "prefill-a")


def test_a_part_by_itself_is_what_the_page_holds(operator):
    serving().refuse(4003)
    whole = operator.get("/")
    for part in ("attention", "counters", "instances", "export"):
        alone = operator.get("/", parts=part)
        assert alone.startswith(f'<section class="part" id="part-{part}"')
        steady = [line for line in alone.splitlines() if "<time" not in line]
        assert not [line for line in steady if line not in whole]


@pytest.mark.parametrize(("count", "topology"), [(1, TP4), (150, TP4), (20, Topology(8, 1, 8, 2))])
def test_it_costs_the_same_however_many_there_are(operator, monkeypatch, count, topology):
    # However slow this machine is now.
    monkeypatch.setattr(memo, "KEPT_SECONDS", 600.0)
    lead()
    many(count, topology)
    operator.get("/")
    forget()
    with queries() as first:
        html = operator.get("/")
    with queries() as again:
        operator.get("/")
    assert (len(first), len(again)) == (WHOLE_PAGE, AGAIN)
    assert len(html.encode()) < MOST_BYTES


def test_a_hundred_rows_that_look_as_bad_as_they_can_are_bounded(operator):
    lead()
    many(120, Topology(64, 1, 1, 1))
    html = operator.get("/")
    assert len(html.encode()) < MOST_BYTES


def test_concerns_beyond_a_few_are_counted_by_kind_and_shown_on_demand(operator):
    for number in range(15):
        serving(f"prefill-{number:02d}", first_port=4000 + 10 * number).refuse(4000 + 10 * number)
    # All of them together are one more.
    said = text_of(operator.get("/", parts="attention"))
    assert "Needs attention 16" in said and "12 of 16 are shown: 16 down" in said and "Show 16" in said
    assert "All 15 prefill instances take no requests" in said
    everything = operator.get("/?attention=all", parts="attention")
    assert everything.count("<li ") == 16 and "are shown" not in text_of(everything)


def test_a_fleet_that_is_well_says_so(operator):
    serving()
    assert "Nothing needs a person" in operator.text("/", parts="attention")


def test_the_list_is_taken_away_as_it_is_filtered(operator):
    serving("prefill-a")
    serving("prefill-b", first_port=5000)
    intent.cordon("prefill-b", actor="anna", reason="=HYPERLINK(1)")
    document = json.loads(operator.get("/instances.json?q=state:cordoned"))
    assert [one["name"] for one in document["items"]] == ["prefill-b"] and document["more"] is False
    (one,) = document["items"]
    assert (one["desired"], one["observed"], one["ready"], one["expected"]) == ("cordoned", "up", 0, 4)
    rows = list(csv.DictReader(io.StringIO(operator.get("/instances.csv"))))
    assert [row["name"] for row in rows] == ["prefill-a", "prefill-b"]
    assert rows[1]["desired_reason"] == "'=HYPERLINK(1)"
    operator.get("/instances.csv?sort=x", status=400)


def test_nobody_takes_the_list_away_without_a_role(nobody, stranger):
    nobody.get("/instances.csv", status=403)
    assert stranger.client.get("/instances.json").status_code == 302
