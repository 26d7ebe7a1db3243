"""The pages about drains: what blocks one, who can say so, what it takes away; and how much each asks of the database."""

import time

import pytest

from controlplane.commands import drains, instances, reports
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.models import Drain, Gateway
from controlplane.queries import memo
from tests.controlplane.commands.draining import Looker, acknowledge, bind, join, the_drain
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries
from tests.doubles.engine import Engine

WHO = {"actor": "anna", "reason": "replace the NIC of <script>alert(1)</script>"}
QUERIES_OF_THE_LIST = 12
QUERIES_OF_ONE = 57
MOST_BYTES = 60_000


@pytest.fixture
def engine():
    with Engine(dp=2) as running:
        yield running


@pytest.fixture
def world(on_backend, engine):
    """A prefill of two DP groups with its engine, a decode, two gateways."""
    memo.forget()
    made = World("prefill-a")
    made.launch(Topology(2, 1, 2, 1), first_port=4000)
    instances.edit("prefill-a", engine_url=engine.url, actor="anna")
    instances.add("decode-a", role="decode", actor="anna")
    join("gw-1")
    join("gw-2")
    return made


@pytest.fixture
def drain(world, engine):
    """Of dp1, with work left, and with gw-2 silent."""
    engine.counts[1].inflight = 14
    bind(77, 1, until=time.time() + 300)
    done = drains.drain("prefill-a", group=1, deadline_at=time.time() + 1200, min_ready=0, **WHO)
    acknowledge("gw-1")
    reports.report_open_rooms(
        "gateway", "gw-1", [{"instance": "prefill-a", "dp": 1, "open_rooms": 3, "age_seconds": 0.0}], time.time()
    )
    Gateway.objects.using(FACTS).filter(name="gw-2").update(seen_at=time.time() - 101, lease_seconds=15.0)
    look = Looker()
    look(2)
    engine.counts[1].inflight = 2
    look.now += 6
    look(2)
    return done.drain


def test_a_drain_says_what_blocks_it_who_must_still_say_so_and_the_next_step(viewer, drain):
    said = viewer.text(f"/drains/{drain}/")
    assert "Drain of prefill-a dp1" in said and "Not drained yet." in said
    assert "blocked by 4" in said and "What nobody can say blocks." in said
    assert "Gateway gw-2 is silent for longer than its lease of 15 s: it may still admit" in said
    assert "Next Start gw-2 again, or remove it if it is gone" in said
    assert "The engine still has requests on dp1" in said
    assert "Rooms that were bound to dp1 before are still live" in said and "77" in said
    assert "1 of 2 that choose workers have stopped" in said
    assert "the engine busy 2 inflight 2; 8 others are 0" in said
    assert "Gateways know 1 of 2 waiting for gw-2" in said
    assert "Requests end 11 of 14 waiting for 3" in said
    assert "then launch 1 of dp1 is safe to delete. safe_to_delete: no" in said
    assert "2 of 4 ranks, launch 1" in said
    assert "is draining, was enabled" in said and f"drain {drain} of dp1 (launch 1) began" in said


def test_what_it_takes_away_is_compared_with_the_fleet_without_it(viewer, drain):
    said = viewer.text(f"/drains/{drain}/", parts="impact")
    assert "Ranks of prefill-a 4 2" in said and "DP groups of prefill-a 2 1" in said
    assert "Pairs of prefill and decode 1 1" in said and "No budget was asked for." in said


def test_a_reason_is_text_and_never_markup(viewer, drain):
    for path in ("/drains/", f"/drains/{drain}/"):
        html = viewer.get(path)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html and "<script>alert" not in html


def test_drained_says_which_launch_may_be_deleted_and_force_what_it_was(viewer, world, engine):
    drains.drain("prefill-a", **WHO)
    acknowledge("gw-1")
    acknowledge("gw-2")
    Looker()(4)
    row = the_drain()
    assert row.progress == "drained"
    said = viewer.text(f"/drains/{row.id}/")
    assert "Drained. Prefill-a is drained: launch 1 may be deleted." in said
    assert "safe_to_delete: yes" in said and "2 of 2" in said
    assert "Nothing: everybody has stopped" in said
    drains.cancel("prefill-a", **WHO)
    again = drains.drain("prefill-a", group=0, **WHO).drain
    drains.force("prefill-a", group=0, actor="ben", reason="it hangs")
    said = viewer.text(f"/drains/{again}/")
    assert "Ended by force: not drained. It ended: forced: it hangs." in said and "safe_to_delete: no" in said
    assert "Acknowledgements" not in said and "Plan and impact" not in said


def test_a_drain_that_nobody_looks_at_says_so_loudly(viewer, drain):
    Drain.objects.using(FACTS).update(checked_at=time.time() - 60)
    assert "Nobody has looked at it for 1m" in viewer.text(f"/drains/{drain}/").replace("\u202f", " ")


def test_without_gateway_or_router_it_says_that_nobody_can_be_asked(viewer, on_backend):
    World("prefill-b").launch(Topology(1, 1, 1, 1), first_port=4100)
    number = drains.drain("prefill-b", **WHO).drain
    said = viewer.text(f"/drains/{number}/")
    assert "Nobody has looked at it yet" in said and "nobody who chooses workers is known" in said
    Looker()(1)
    said = viewer.text(f"/drains/{number}/")
    assert "Cannot stop admission" in said and "Give the URL of its engine" in said and "not observed" in said


def test_the_list_shows_those_under_way_first_and_pages_the_others(viewer, world):
    for number in range(52):
        drains.drain("prefill-a", actor="anna", reason=f"round {number}")
        drains.cancel("prefill-a", actor="anna")
    running = drains.drain("prefill-a", group=0, **WHO).drain
    said = viewer.text("/drains/")
    assert said.index("Under way") < said.index("Ended") and f"drain {running}" in said
    assert "round 51" in said and "round 1 " not in said
    older = viewer.text(f"/drains/?before={running - 50}")
    assert "round 0" in older and "round 51" not in older
    assert "Nothing of nobody-here is being drained." in viewer.text("/drains/?instance=nobody-here")


def test_the_list_can_be_taken_away_and_no_cell_is_a_formula(viewer, world):
    drains.drain("prefill-a", actor="anna", reason="=1+1")
    text = viewer.get("/drains.csv?instance=prefill-a")
    assert text.splitlines()[0].startswith("drain,instance,dp,role,desired,progress")
    assert "prefill-a,,prefill,draining,waiting,False,1," in text and ",'=1+1," in text
    assert len(viewer.get("/drains.csv?instance=other").splitlines()) == 1
    viewer.get("/drains.csv?instance=%3C", status=400)


def test_an_empty_list_teaches_the_command(viewer):
    said = viewer.text("/drains/")
    assert "Nothing is being drained." in said and "manage.py drain NAME --dry-run" in said


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/drains/999/", 404),
        (f"/drains/{10**30}/", 404),
        ("/drains/x/", 404),
        ("/drains/?before=x", 400),
        (f"/drains/?before={10**30}", 400),
        ("/drains/?instance=a%00b", 400),
        ("/drains/?instance=%3Cscript%3E", 400),
    ],
)
def test_what_makes_no_sense_is_a_sentence(viewer, path, status):
    assert "<script>" not in viewer.get(path, status=status).replace("<script src=", "")


def test_a_part_alone_is_what_stands_in_the_page(viewer, drain):
    page = viewer.get(f"/drains/{drain}/")
    for name in ("blocks", "senders", "witnesses", "steps", "scope", "who"):
        part = viewer.get(f"/drains/{drain}/", parts=name)
        assert f'id="part-{name}"' in part and part.count("data-part=") == 1
        assert part.split("<h2")[1][:40] in page


def test_only_who_may_act_is_offered_to(viewer, operator, drain):
    assert "this needs the role operator" in viewer.get(f"/drains/{drain}/")
    html = operator.get(f"/drains/{drain}/")
    assert "/act/cancel-drain?on=prefill-a" in html and "/act/remove-gateway?on=gw-2" in html


def test_the_number_of_queries_and_bytes_does_not_grow_with_the_fleet(viewer, drain):
    def measured(path):
        memo.forget()
        with queries() as asked:
            html = viewer.get(path)
        assert len(html) < MOST_BYTES
        return len(asked)

    one = [measured("/drains/"), measured(f"/drains/{drain}/")]
    assert one == [QUERIES_OF_THE_LIST, QUERIES_OF_ONE]
    for number in range(6):
        World(f"other-{number}").launch(Topology(4, 1, 2, 1), first_port=5000 + 100 * number)
        drains.drain(f"other-{number}", **WHO)
    for number in range(6):
        join(f"gw-more-{number}")
    for room in range(200, 260):
        bind(room, 1, until=time.time() + 300)
    Looker()(2)
    assert [measured("/drains/"), measured(f"/drains/{drain}/")] == one
