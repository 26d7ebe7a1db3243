"""The pages about gateways and routers: who is silent, who is behind, what each holds, reported and was seen to do."""

import time

import pytest

from controlplane.commands import drains, gateways, instances, reports, routers
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import head
from controlplane.models import Gateway, Router, RouterMember
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries

WHO = {"actor": "anna", "reason": "<b>why</b>"}
QUERIES_OF_THE_LIST = 14
QUERIES_OF_A_GATEWAY = 14
QUERIES_OF_A_ROUTER = 11


@pytest.fixture
def fleet(on_backend):
    World("prefill-a").launch(Topology(2, 1, 1, 1), first_port=4000)
    instances.add("decode-a", role="decode", actor="anna")
    now = time.time()
    for name in ("gw-1", "gw-2"):
        gateways.join(name, f"http://{name}:8080", 15.0, now)
    at = head()
    gateways.acknowledge("gw-1", at.ledger_id, at.revision, now)
    routers.add("router-a", "http://127.0.0.1:30100", ["prefill-a", "decode-a"], "", "secret-key", **WHO)


def report(now: float) -> None:
    shut = {"instance": "prefill-a", "dp": 1, "state": "open", "age_seconds": 42.0, "reason": "five <i>timeouts</i>"}
    reports.report_breakers("gw-1", [shut], now)
    reports.report_open_rooms(
        "gateway",
        "gw-1",
        [
            {"instance": "prefill-a", "dp": None, "open_rooms": 5, "age_seconds": 2.0},
            {"instance": "prefill-a", "dp": 0, "open_rooms": 4, "age_seconds": 1.0},
            {"instance": "prefill-a", "dp": 1, "open_rooms": 3, "age_seconds": 1.0},
        ],
        now,
    )
    ended = {"prefill": "prefill-a", "decode": "decode-a", "age_seconds": 0.0}
    reports.report_outcomes(
        "gw-1", [{**ended, "outcome": "ok", "count": 1284}, {**ended, "outcome": "timeout", "count": 3}], now
    )


def test_gateways_say_how_far_they_follow_and_who_is_silent(viewer, fleet):
    Gateway.objects.using(FACTS).filter(name="gw-2").update(seen_at=time.time() - 7205)
    report(time.time())
    said = viewer.text("/gateways/", parts="gateways").replace("\u202f", " ")
    assert "Gateways 2 1 silent" in said
    assert "gw-2 http://gw-2:8080 silent nothing – 2h 0m" in said
    assert "ok 1,284, timeout 3" in said
    # Of the whole and its groups the larger count is what is open.
    assert "7 as of" in said and "not said" in said
    assert "gw-1" not in viewer.text("/gateways/?state=silent", parts="gateways")
    assert "No gateway is like that." in viewer.text("/gateways/?q=nothing-like-it", parts="gateways")


def test_a_gateway_shows_what_it_reported_and_which_drains_wait_for_it(viewer, operator, fleet):
    now = time.time()
    report(now)
    number = drains.drain("prefill-a", group=1, **WHO).drain
    drains.check(now)
    said = viewer.text("/gateways/gw-1/")
    assert "behind. It acknowledges when it has read that far." in said
    assert "prefill-a dp1" in said and "open" in said and "five <i>timeouts</i>" in said
    assert "five &lt;i&gt;timeouts&lt;/i&gt;" in viewer.get("/gateways/gw-1/")
    assert "Drains that wait for it 1" in said and f"/drains/{number}/" in viewer.get("/gateways/gw-1/")
    assert "prefill-a decode-a ok 1,284, timeout 3 1,287" in said
    assert "/act/remove-gateway?on=gw-1" in operator.get("/gateways/gw-1/")
    assert "this needs the role operator" in viewer.get("/gateways/gw-1/")
    gateways.leave("gw-1", actor="anna")
    assert "Left. It chooses nothing any more" in viewer.text("/gateways/gw-1/")


def test_a_gateway_that_has_said_nothing_proves_nothing(viewer, fleet):
    said = viewer.text("/gateways/gw-2/")
    assert "Joined, and serving nothing yet." in said and "so it proves nothing empty" in said
    assert "acknowledged nothing behind unknown" in said


def test_a_router_shows_what_it_shall_hold_and_what_it_holds(viewer, operator, fleet):
    assert "Not asked yet." in viewer.text("/routers/router-a/")
    now = time.time()
    Router.objects.using(FACTS).update(state="changing", checked_at=now, problem="one worker is not ready", restarts=2)
    RouterMember.objects.using(FACTS).filter(instance="prefill-a").update(
        present=True, worker_id="1", worker_url="http://10.0.0.1:30000", changed_at=now - 60
    )
    RouterMember.objects.using(FACTS).filter(instance="decode-a").update(sentence="decode-a has no engine URL")
    said = viewer.text("/routers/router-a/")
    assert "Changing. It holds 1 of 2 instances." in said and "One worker is not ready." in said
    assert "decode-a on the list missing – decode-a has no engine URL" in said
    assert "prefill-a on the list present http://10.0.0.1:30000" in said
    assert "stored, never shown" in said and "secret-key" not in viewer.get("/routers/router-a/")
    only = viewer.text("/routers/router-a/?show=out", parts="members")
    assert "prefill-a on the list" not in only and "decode-a" in only
    assert "1 of 2" in viewer.text("/gateways/", parts="routers")
    assert "/act/remove-router?on=router-a" in operator.get("/routers/router-a/")


def test_both_lists_can_be_taken_away(viewer, fleet):
    assert "gw-1,http://gw-1:8080,present," in viewer.get("/gateways.csv")
    text = viewer.get("/routers.csv")
    assert "router-a,http://127.0.0.1:30100,unknown,,,0,decode-a,True,False," in text and "secret-key" not in text


def test_an_empty_fleet_teaches_how_a_gateway_joins(viewer):
    said = viewer.text("/gateways/")
    assert "No gateway has joined." in said and "/api/v1/gateways" in said and "No router is kept in step." in said


def test_many_gateways_are_paged_in_the_order_of_their_names(viewer, on_backend):
    now = time.time()
    Gateway.objects.using(FACTS).bulk_create(
        Gateway(name=f"gw-{number:04d}", registered_at=now, seen_at=now, lease_seconds=15.0) for number in range(230)
    )
    said = viewer.get("/gateways/", parts="gateways")
    assert "gw-0099" in said and "gw-0100" not in said and "?after=gw-0099" in said
    last = viewer.text("/gateways/?after=gw-0199", parts="gateways")
    assert "gw-0200" in last and "gw-0229" in last and "Next" not in last
    assert len(said) < 220_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/gateways/ghost/", 404),
        ("/routers/ghost/", 404),
        ("/gateways/?state=open", 400),
        (f"/gateways/?q={'x' * 101}", 400),
        ("/gateways/?q=a%00b", 400),
        ("/gateways/a%00b/", 404),
    ],
)
def test_what_makes_no_sense_is_a_sentence(viewer, path, status):
    viewer.get(path, status=status)


def test_what_a_router_page_is_asked_must_be_known(viewer, fleet):
    viewer.get("/routers/router-a/?show=all", status=400)


def test_the_number_of_queries_does_not_grow(viewer, fleet):
    def measured(path):
        with queries() as asked:
            viewer.get(path)
        return len(asked)

    paths = ("/gateways/", "/gateways/gw-1/", "/routers/router-a/")
    one = [measured(path) for path in paths]
    assert one == [QUERIES_OF_THE_LIST, QUERIES_OF_A_GATEWAY, QUERIES_OF_A_ROUTER]
    now = time.time()
    report(now)
    for number in range(20):
        World(f"other-{number}").launch(Topology(1, 1, 1, 1), first_port=5000 + number)
        gateways.join(f"more-{number}", "", 15.0, now)
        routers.add(f"router-{number}", f"http://127.0.0.1:{31000 + number}", [f"other-{number}"], "", "", **WHO)
    reports.report_breakers("gw-1", [{"instance": f"other-{n}", "dp": None, "state": "open"} for n in range(20)], now)
    assert [measured(path) for path in paths] == one
