"""The palette: what a few letters or a number may mean, and what may be done with it."""

import pytest

from controlplane.commands import drains, gateways, instances, intent
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.models import Rank
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries

SMALL = Topology(1, 1, 4, 1)


def fleet() -> None:
    World("prefill-a").launch(SMALL, first_port=5000, token="a")
    for name in ("prefill-b", "decode-a", "prefill_x"):
        instances.add(name, role="decode" if name.startswith("d") else "prefill", actor="anna")


def test_names_that_begin_so_come_before_names_that_hold_it(viewer):
    fleet()
    instances.add("a-prefill", role="prefill", actor="anna")
    instances.add("prefill", role="prefill", actor="anna")
    html = viewer.get("/palette/?q=PREFILL")
    places = [html.index(f'href="/instances/{name}/"') for name in ("prefill", "prefill-a", "prefill-b", "a-prefill")]
    assert places == sorted(places) and "decode-a" not in html


def test_signs_of_patterns_are_letters_here(viewer):
    fleet()
    assert "prefill_x" in viewer.text("/palette/?q=l_")
    assert "prefill-a" not in viewer.text("/palette/?q=l_")
    assert "Nothing is called so" in viewer.text("/palette/?q=%25")


def test_a_number_may_be_a_room_an_event_or_a_drain(viewer):
    fleet()
    intent.cordon("prefill-b", actor="anna", reason="x")
    drains.drain("prefill-b", actor="anna", reason="y")
    html = viewer.get("/palette/?q=1")
    for there in ('href="/rooms/1/"', 'href="/events/1/"', 'href="/events/fleet/?as_of=1"', 'href="/drains/1/"'):
        assert there in html
    assert 'href="/events/99999/"' not in viewer.get("/palette/?q=99999")


def test_an_address_leads_to_its_rank(viewer):
    fleet()
    assert "?rank=dp0.cp0.tp2.pp0" in viewer.get("/palette/?q=10.0.0.1:5002")
    assert "?rank=" not in viewer.get("/palette/?q=10.0.0.1:9999")
    assert "?rank=" in viewer.get("/palette/?q=10.0.0:5002")
    Rank.objects.using(FACTS).filter(port=5002).update(ip="10.0.0.11")
    assert "?rank=" not in viewer.get("/palette/?q=10.0.0.1:5002")


def test_a_host_leads_to_whoever_is_or_was_there(viewer):
    fleet()
    other = World("decode-b")
    other.launch(SMALL, first_port=6000)
    other.refuse(6001)
    gone = World("prefill-gone")
    gone.launch(SMALL, first_port=7000)
    gone.refuse(*range(7000, 7004))
    for text in ("10.0.0.1", "10.0."):
        said = viewer.text(f"/palette/?q={text}")
        assert "10.0.0.1 decode-b host 3 ranks here, 1 left" in said
        assert "10.0.0.1 prefill-a host 4 ranks here" in said
        assert "10.0.0.1 prefill-gone host 4 left" in said
        assert f"All instances with “{text}”" in said
    assert "host" not in viewer.text("/palette/?q=10.0.0.2")


def test_what_is_not_shown_is_a_step_away(viewer):
    for number in range(9):
        instances.add(f"prefill-{number}", role="prefill", actor="anna")
    assert 'href="/?q=prefill"' in viewer.get("/palette/?q=prefill")
    assert 'href="/?q=' not in viewer.get("/palette/?q=prefill-7")


def test_gateways_are_found_by_name(viewer):
    gateways.join("gw-1", "http://10.0.0.9", actor="token:gw")
    assert 'href="/gateways/gw-1/"' in viewer.get("/palette/?q=gw")


def test_actions_are_for_whoever_may_act_and_fit_what_is_wanted(viewer, operator):
    fleet()
    intent.cordon("prefill-b", actor="anna", reason="x")
    assert "/act/" not in viewer.get("/palette/?q=prefill-b") and "/act/" not in viewer.get("/palette/?q=drain+pre")
    html = operator.get("/palette/?q=prefill-b")
    assert "/act/uncordon?on=prefill-b" in html and "/act/cordon" not in html
    assert "/act/drain?on=prefill-b" in operator.get("/palette/?q=drain+b")


def test_the_dialog_offers_pages_with_their_keys_and_lists_the_keys(viewer):
    said = viewer.text("/palette/")
    assert "Overview page g o" in said and "Events page g e" in said
    assert "g e Events" in viewer.text("/palette/keys/") and "single keys work" in viewer.text("/palette/keys/")


@pytest.mark.parametrize(
    "text", ["%00", "x" * 5000, "'; DROP TABLE", "%F0%9F%92%A9", "[fd00::1]:80", ":", "99999999999999999999"]
)
def test_whatever_is_typed_has_an_answer(viewer, text):
    viewer.get(f"/palette/?q={text}")


def test_whoever_is_signed_out_gets_no_page_in_it(stranger):
    assert stranger.client.get("/palette/?q=a", headers={"X-PDCP-Parts": ""}).status_code == 401


def test_its_queries_are_always_the_same_and_its_lines_bounded(operator):
    World("prefill-a").launch(SMALL, first_port=5000, token="a")
    with queries() as few:
        operator.get("/palette/?q=pre")
    for number in range(40):
        instances.add(f"prefill-{number:03}", role="prefill", actor="anna")
    with queries() as many:
        html = operator.get("/palette/?q=pre")
    assert len(few) == len(many) and html.count('role="option"') <= 14
