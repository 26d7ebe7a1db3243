"""The page of one instance: what it says of ranks and launches, what it costs, and what it refuses."""

import json
import re
import time

import pytest

from controlplane.commands import drains, intent
from controlplane.databases import FACTS
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Slot, Topology
from controlplane.models import Breaker, Gateway, Instance
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries, text_of
from tests.dashboard.many import many

TOPOLOGY = Topology(2, 1, 2, 1)
PAGE = "/instances/prefill-a/"
RANKS_QUERIES = 28
WHY_QUERIES = 32
EACH_TAB = ("ranks", "why", "launches", "rooms", "engine-info", "pairs", "events")


@pytest.fixture
def world(on_backend) -> World:
    return World()


def lead(world: World) -> None:
    from controlplane.models import Lease

    Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=time.time())


def gateway(name: str) -> None:
    now = time.time()
    Gateway.objects.using(FACTS).create(name=name, registered_at=now - 100, seen_at=now)


def breaker(by: str, group: int = -1) -> None:
    at = time.time()
    Breaker.objects.using(FACTS).create(
        gateway=by, instance="prefill-a", group=group, state="open", since=at, reported_at=at, reason="5 of 6 failed"
    )


def cell(html: str, slot: str) -> str:
    found = re.search(rf'<button[^>]* data-s="{re.escape(slot)}"[^>]*>', html)
    assert found is not None, f"no cell {slot}"
    return found[0]


def label(html: str, slot: str) -> str:
    return re.search(r'aria-label="([^"]*)"', cell(html, slot))[1]


def test_a_complete_launch_is_routable_rank_by_rank(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    html = viewer.get(PAGE)
    said = text_of(html)
    assert "registered 4 /4 ranks" in said and "serving 2 /2 DP groups" in said
    assert "Launch 1" in said and "4 of 4 routable" in said
    assert label(html, "1.0.1.0") == "dp1 tp1: routable"
    assert 'class="rk t-ok"' in cell(html, "0.0.0.0")


def test_one_cell_alone_is_a_stop_of_the_tab_key(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    html = viewer.get(PAGE)
    assert re.findall(r'tabindex="0" data-s="([^"]*)"', html) == ["0.0.0.0"]
    html = viewer.get(f"{PAGE}?rank=dp1.cp0.tp0.pp0")
    assert re.findall(r'tabindex="0" data-s="([^"]*)"', html) == ["1.0.0.0"]
    assert 'aria-selected="true"' in cell(html, "1.0.0.0")


def test_a_launch_that_fills_is_counted_and_says_who_is_missing(world, viewer):
    world.put(Slot(0, 0, 0, 0), TOPOLOGY, port=4000)
    world.probe(Contact.UP, 4000)
    html = viewer.get(PAGE)
    said = text_of(html)
    assert "1 of 4 registered" in said and "Missing 3: dp0 tp1, all of dp1 (2)." in said
    assert label(html, "0.0.0.0") == "dp0 tp0: filling" and label(html, "1.0.1.0") == "dp1 tp1: missing"
    assert "dp0.cp0.tp1.pp0" in html, "the missing ones can be copied"


def test_a_rank_that_refuses_is_down_and_the_candidate_stands_below(world, viewer):
    ports = world.launch(TOPOLOGY, first_port=4000)
    world.refuse(ports[3])
    html = viewer.get(PAGE)
    assert label(html, "1.0.1.0").startswith("dp1 tp1: down") and "loud" in cell(html, "1.0.1.0")
    assert label(html, "0.0.0.0") == "dp0 tp0: up"
    assert "prefill-a is not serving: 3/4, missing dp1 tp1." in text_of(html)
    world.now += 5
    world.put(Slot(0, 0, 0, 0), TOPOLOGY, port=5000, token="two")
    said = viewer.text(PAGE)
    assert "Launch 2" in said and "candidate" in said and "1 of 4 registered" in said


def test_the_questions_are_answered_in_order_and_the_first_no_is_the_conclusion(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    lead(world)
    html = viewer.get(f"{PAGE}?tab=why")
    said = text_of(html)
    # What is to be typed is told apart.
    assert "<code>manage.py instances edit prefill-a --engine-url URL</code> says where" in html and "`" not in said
    assert "13 questions: 6 yes, 7 not observed" in said and "Nothing that was seen speaks against it." in said
    assert "1 Is the directory up? yes" in said and "6 Does its engine answer? not observed" in said
    gateway("gw-1")
    breaker("gw-1")
    html = viewer.get(f"{PAGE}?tab=why")
    said = text_of(html)
    assert "Are the breakers for it closed? No. The breaker of gateway gw-1 is open: 5 of 6 failed" in said
    assert said.count("Next Look why its requests failed") == 1
    assert re.search(r'id="q-breaker" class="t-bad', html) and re.search(r'id="q-engine" class="t-none', html)


def test_what_has_nothing_to_do_with_the_conclusion_is_named_beside_it(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    lead(world)
    intent.cordon("prefill-a", actor="anna", reason="disk")
    gateway("gw-1")
    breaker("gw-1")
    html = viewer.get(f"{PAGE}?tab=why")
    assert "Do operators want it used? No. It is cordoned, by anna: disk" in text_of(html)
    assert 'No as well, and not explained by it: <a href="#q-breaker">Are the breakers for it closed?</a>' in html


def test_what_follows_from_an_earlier_answer_says_from_which(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    world.refuse(4003)
    gateway("gw-1")
    breaker("gw-1")
    html = viewer.get(f"{PAGE}?tab=why")
    assert "Follows from: Did every rank register?" in text_of(html)
    assert "No as well" not in text_of(html)
    assert re.search(r'id="q-registered" class="t-bad', html) and re.search(r'id="q-breaker" class="t-warn', html)


def test_intent_and_breakers_are_seen_in_every_rank_they_hold_for(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    gateway("gw-1")
    gateway("gw-2")
    breaker("gw-1", group=0)
    intent.cordon("prefill-a", group=1, actor="anna", reason="disk")
    html = viewer.get(PAGE)
    assert label(html, "0.0.1.0") == "dp0 tp1: routable, breaker not closed at gw-1"
    assert label(html, "1.0.1.0") == "dp1 tp1: cordoned" and "shut" in cell(html, "1.0.1.0")
    assert '#t-0001"' in html and '#t-0010"' in html
    shown = viewer.get(f"{PAGE}?show=breaker")
    assert (
        label(shown, "0.0.0.0").startswith("dp0 tp0: open somewhere") and label(shown, "1.0.0.0") == "dp1 tp0: closed"
    )
    shown = viewer.get(f"{PAGE}?show=intent")
    assert label(shown, "0.0.0.0").startswith("dp0 tp0: enabled")


def test_a_rank_in_full_says_the_verdict_first_and_whose_word_each_fact_is(world, operator):
    lead(world)
    ports = world.launch(TOPOLOGY, first_port=4000)
    said = operator.text(f"{PAGE}?rank=dp1.cp0.tp1.pp0")
    assert "dp1 tp1" in said and "Routable." in said
    assert f"launch 1 at 10.0.0.1:{ports[3]}" in said and "written by bootstrap, by probes" in said
    assert "so from the beginning: nobody has changed it" in said
    assert "decode of TP 4 its ranks 2, 3" in said
    world.probe(Contact.SILENT, ports[3])
    said = operator.text(f"{PAGE}?rank=dp1.cp0.tp1.pp0")
    assert "Not routable. Its address accepts connections, but does not greet." in said
    assert "Next" in said and "It may be frozen." in said


def test_a_rank_of_a_launch_that_ended_is_shown_where_it_is_now(world, viewer):
    ports = world.launch(TOPOLOGY, first_port=4000)
    world.refuse(*ports)
    world.now += 1
    world.launch(Topology(1, 1, 1, 1), first_port=5000)
    said = viewer.text(f"{PAGE}?rank=dp0.cp0.tp0.pp0&launch=1")
    assert "Launch 1 has ended; this is launch 2." in said
    said = viewer.text(f"{PAGE}?rank=dp1.cp0.tp1.pp0&launch=1")
    assert "it has no dp1 cp0 tp1 pp0" in said


def test_the_table_says_what_the_grid_shows(world, viewer):
    ports = world.launch(TOPOLOGY, first_port=4000)
    world.refuse(ports[0])
    said = viewer.text(f"{PAGE}?view=table")
    assert "dp0 tp1" in said and f"10.0.0.1:{ports[1]}" in said and "refuses" in said
    said = viewer.text(f"{PAGE}?view=table&state=down")
    assert "dp0 tp0" in said and "dp0 tp1" not in said.split("Launch timeline")[0].split("Why")[1]
    assert "No slot here is silent" in viewer.text(f"{PAGE}?view=table&state=silent")


def test_launches_that_ended_are_told_from_those_that_answer(world, viewer):
    ports = world.launch(TOPOLOGY, first_port=4000, token="one")
    world.now += 2
    world.launch(TOPOLOGY, first_port=5000, token="two")
    world.refuse(*ports)
    said = viewer.text(f"{PAGE}?tab=launches")
    assert "1 dropped" in said and "all of its ranks left" in said and "2 current 4/4" in said and "page_size" in said


def test_a_refresh_brings_the_frame_of_a_grid_and_the_cells_only_when_asked(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    whole, part = viewer.get(PAGE), viewer.get(PAGE, parts="ranks")
    shape = re.search(r'data-shape="([^"]*)"', part)[1]
    assert f'data-shape="{shape}"' in whole
    assert "data-undrawn" in part and "gridcell" not in part and "data-undrawn" not in whole
    drawn = viewer.get(PAGE, parts="ranks,cells")
    assert cell(drawn, "0.0.1.0") == cell(whole, "0.0.1.0")


def test_cells_are_patched_by_what_the_page_would_show(world, viewer):
    ports = world.launch(TOPOLOGY, first_port=4000)
    world.probe(Contact.SILENT, ports[1])
    html = viewer.get(PAGE)
    told = json.loads(viewer.get(f"{PAGE}cells"))
    assert told["cells"].keys() == {"1"} and len(told["cells"]["1"]) == 4
    for slot, place in told["cells"]["1"].items():
        classes, icon, ticks, text = told["looks"][place]
        assert f'class="{classes}"' in cell(html, slot) and label(html, slot).endswith(f": {text}")
        assert f'#i-{icon}"' in html and f'#t-{ticks}"' in html
    one = json.loads(viewer.get(f"{PAGE}cells?slots=0.0.1.0,9.9.9.9"))
    assert list(one["cells"]["1"]) == ["0.0.1.0"] and one["revision"] == told["revision"]
    assert one["looks"][0][3] == "silent"


def test_ranks_and_launches_are_files_too(world, viewer):
    ports = world.launch(TOPOLOGY, first_port=4000)
    world.refuse(ports[3])
    lines = viewer.get(f"{PAGE}ranks.csv").splitlines()
    assert lines[0].startswith("launch,slot,verdict,registration,health,intent,breaker,address") and len(lines) == 5
    assert f"1,dp0.cp0.tp0.pp0,up,registered,up,enabled,closed,10.0.0.1:{ports[0]}" in lines[1]
    narrowed = viewer.get(f"{PAGE}ranks.csv?state=down").splitlines()
    assert len(narrowed) == 2 and "1,dp1.cp0.tp1.pp0,down,down,down," in narrowed[1]
    assert "launch 9 of prefill-a is not open" in viewer.text(f"{PAGE}ranks.csv?launch=9", status=404).lower()
    assert viewer.get(f"{PAGE}launches.csv").splitlines()[1].startswith("1,current,3,4,")


def test_a_choice_in_the_table_keeps_what_the_table_is_narrowed_to(world, viewer):
    world.launch(TOPOLOGY, first_port=4000)
    html = viewer.get(f"{PAGE}?view=table&state=routable&after=dp0.cp0.tp0.pp0")
    link = re.search(r'href="([^"]*)" data-rank="dp1.cp0.tp0.pp0"', html)[1].replace("&amp;", "&")
    assert all(
        kept in link for kept in ("view=table", "state=routable", "after=dp0", "launch=1", "rank=dp1.cp0.tp0.pp0")
    )
    assert "dp1 tp0" in viewer.text(f"{PAGE}{link}")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?tab=nonsense", 400),
        ("?rank=x", 400),
        ("?view=table&after=x", 400),
        ("?tab=rooms&after=x", 400),
        ("?rows=dp.cp.tp.pp", 400),
        ("?tab=pairs&after=x", 400),
        ("cells?slots=1.2", 400),
        ("cells?slots=" + ",".join(["0.0.0.0"] * 513), 400),
    ],
)
def test_what_makes_no_sense_is_a_page_with_a_sentence(world, viewer, query, status):
    world.launch(TOPOLOGY, first_port=4000)
    said = viewer.text(f"{PAGE}{query}", status=status)
    assert "This cannot be read" in said and "Request" in said


def test_an_instance_that_nobody_knows_is_not_found(viewer):
    for path in ("/instances/nobody/", "/instances/nobody/cells"):
        assert "no instance is named nobody" in viewer.text(path, status=404).lower()
    viewer.get("/instances/..%2fetc/", status=404)


def test_whoever_is_not_signed_in_sees_nothing(world, stranger):
    assert stranger.client.get(PAGE).status_code == 302
    assert stranger.client.get(f"{PAGE}cells", headers={"HX-Request": "true"}).status_code == 401


def test_a_viewer_is_offered_nothing_to_do(world, viewer, operator):
    world.launch(TOPOLOGY, first_port=4000)
    path = f"{PAGE}?rank=dp0.cp0.tp0.pp0"
    assert "data-act" not in viewer.get(path) and "this needs the role operator" in viewer.text(path)
    assert "data-act" in operator.get(path)


def test_names_and_reasons_are_text(world, operator):
    world.launch(TOPOLOGY, first_port=4000)
    intent.cordon("prefill-a", actor="anna", reason="<script>alert(1)</script>")
    for tab in EACH_TAB:
        html = operator.get(f"{PAGE}?tab={tab}&rank=dp0.cp0.tp0.pp0")
        assert "<script>alert" not in html, tab
    assert "&lt;script&gt;alert" in operator.get(PAGE)


def test_a_decode_and_a_seed_say_that_they_register_nobody(on_backend, viewer):
    for name, role in (("decode-a", "decode"), ("seed-a", "seed")):
        Instance.objects.using(FACTS).create(name=name, role=role, created_at=time.time())
    assert "Decodes ask here, they do not register" in viewer.text("/instances/decode-a/")
    assert "A seed of weights registers no ranks" in viewer.text("/instances/seed-a/")
    for tab in EACH_TAB:
        viewer.get(f"/instances/decode-a/?tab={tab}")
        viewer.get(f"/instances/seed-a/?tab={tab}")


def test_a_drain_stands_in_both_axes(world, operator):
    world.launch(TOPOLOGY, first_port=4000)
    drains.drain("prefill-a", group=0, actor="anna", reason="disk", min_ready=0)
    html = operator.get(f"{PAGE}?rank=dp0.cp0.tp0.pp0")
    assert label(html, "0.0.0.0") == "dp0 tp0: draining"
    assert "Open drain" in text_of(html) and "anna" in text_of(html)


@pytest.mark.parametrize("tab", EACH_TAB)
def test_a_page_asks_as_many_queries_for_many_ranks_as_for_few(on_backend, viewer, tab):
    many(1, Topology(1, 1, 1, 1), prefix="few-")
    many(1, Topology(4, 1, 8, 2), prefix="more-")
    costs = []
    for name in ("few-0000", "more-0000"):
        viewer.get(f"/instances/{name}/?tab={tab}")
        with queries() as asked:
            viewer.get(f"/instances/{name}/?tab={tab}&rank=dp0.cp0.tp0.pp0")
        costs.append(len(asked))
    assert costs[0] == costs[1], costs
    if tab in ("ranks", "why"):
        assert costs[0] == (RANKS_QUERIES if tab == "ranks" else WHY_QUERIES)


def test_a_page_is_small_however_many_ranks_there_are(on_backend, viewer):
    many(1, Topology(64, 1, 64, 1), prefix="grid-")
    many(1, Topology(64, 1, 64, 4), prefix="huge-")
    whole = viewer.get("/instances/grid-0000/")
    assert whole.count('role="gridcell"') == 4096 and len(whole) < 900_000
    huge = viewer.get("/instances/huge-0000/")
    assert huge.count('role="gridcell"') == 4096 and abs(len(huge) - len(whole)) < 60_000
    assert "4,096 of 16,384 slots are shown: dp0 to dp15 of 64" in text_of(huge)
    later = viewer.get("/instances/huge-0000/?dp=48")
    assert label(later, "63.0.0.0") == "dp63 tp0 pp0: routable"
    assert len(viewer.get("/instances/grid-0000/", parts="ranks")) < 20_000
    assert len(viewer.get("/instances/grid-0000/cells")) < 80_000
    table = viewer.get("/instances/huge-0000/?view=table")
    assert table.count("data-rank=") == 100 and len(table) < 220_000
