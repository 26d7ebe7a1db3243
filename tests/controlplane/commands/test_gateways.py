"""Gateways join, acknowledge and leave; the ledger hears of the first and the last."""

import threading

import pytest
from django.db import connections

from controlplane.commands import gateways, instances
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import Cursor, after, head
from controlplane.models import Breaker, Gateway, OpenRooms
from controlplane.queries import gateways as queries

WHO = {"actor": "anna", "reason": "a test"}
NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    instances.add("p", **WHO)


def told(kind: str) -> list[dict]:
    return [event.data for event in after(0) if event.kind == kind]


def test_joining_twice_is_one_event_and_a_new_url_another():
    first = gateways.join("g", "http://10.0.0.9:9000/", 15, NOW)
    assert first.changed and (first.ledger_id, first.revision) == (head().ledger_id, head().revision - 1)
    again = gateways.join("g", "http://10.0.0.9:9000", 30, NOW + 5)
    assert not again.changed and "already" in again.sentence
    assert gateways.join("g", "http://10.0.0.9:9001", 30, NOW + 6).changed
    assert told("gateway.joined") == [
        {"gateway": "g", "url": "http://10.0.0.9:9000"},
        {"gateway": "g", "url": "http://10.0.0.9:9001"},
    ]
    row = queries.gateway("g")
    assert (row.joined_at, row.seen_at, row.lease_seconds) == (NOW + 6, NOW + 6, 30)


MALFORMED = [
    ({"name": "router:x"}, "a gateway's name has"),
    ({"name": "g\n"}, "a gateway's name has"),
    ({"name": "x" * 101}, "a gateway's name has"),
    ({"url": "ftp://10.0.0.1"}, "must start with http"),
    ({"url": "http://u:p@10.0.0.1"}, "must not hold a user"),
    ({"lease_seconds": 0}, "a lease is from"),
    ({"lease_seconds": float("nan")}, "a lease is from"),
    ({"lease_seconds": 1e9}, "a lease is from"),
]


def test_what_is_malformed_is_refused_with_a_sentence_and_nothing_is_stored():
    before = head()
    for given, sentence in MALFORMED:
        with pytest.raises(Refused) as refusal:
            gateways.join(**{"name": "g", "url": "", "lease_seconds": 15, "now": NOW, **given})
        assert sentence in refusal.value.sentence
    assert head() == before and not Gateway.objects.using(FACTS).exists()


def test_an_acknowledgement_moves_forward_only_and_never_past_the_head():
    gateways.join("g", "", 15, NOW)
    here = head()
    assert gateways.acknowledge("g", here.ledger_id, here.revision, NOW + 1).revision == here.revision
    assert gateways.acknowledge("g", here.ledger_id, 0, NOW + 2).revision == here.revision
    assert queries.gateway("g").acknowledged_revision == here.revision
    for ledger, revision, sentence in (
        (here.ledger_id, here.revision + 1, "beyond the ledger's head"),
        ("another", 0, "another ledger"),
        (here.ledger_id, -1, "whole number"),
        (here.ledger_id, True, "whole number"),
        (here.ledger_id, 2**63, "whole number"),
    ):
        with pytest.raises(Refused, match=sentence):
            gateways.acknowledge("g", ledger, revision, NOW + 3)
    row = queries.gateway("g")
    assert row.has_acknowledged(here) and not row.has_acknowledged(Cursor("another", 0)) and row.behind == 0
    assert head() == here, "acknowledgements are no events"
    instances.add("q", **WHO)
    assert queries.gateway("g").behind == 1


def test_a_gateway_that_starts_again_has_acknowledged_nothing_yet():
    """It may have read its state from a disk, older than what the process before it had acknowledged."""
    gateways.join("g", "", 15, NOW)
    here = head()
    gateways.acknowledge("g", here.ledger_id, here.revision, NOW)
    gateways.join("g", "", 15, NOW + 1)
    row = queries.gateway("g")
    assert row.behind is None and not row.has_acknowledged(here) and "not acknowledged anything" in row.sentence(NOW)


def test_whoever_never_joined_or_has_left_is_told_to_join():
    for _ in range(2):
        for work in (
            lambda: gateways.acknowledge("g", head().ledger_id, 0, NOW),
            lambda: gateways.report_breakers("g", [], NOW),
            lambda: gateways.report_open_rooms("gateway", "g", [], NOW),
            lambda: gateways.report_outcomes("g", [], NOW),
        ):
            with pytest.raises(Refused, match="join again") as refusal:
                work()
            assert refusal.value.code == "not_found"
        gateways.join("g", "", 15, NOW)
        gateways.leave("g", now=NOW)


def test_a_gateway_that_leaves_takes_its_verdicts_along_but_not_what_it_left_open():
    gateways.join("g", "", 15, NOW)
    gateways.report_breakers("g", [{"instance": "p", "state": "open"}], NOW)
    rooms = [{"instance": "p", "dp": dp, "open_rooms": 3 * dp, "age_seconds": 0} for dp in (0, 1)]
    gateways.report_open_rooms("gateway", "g", rooms, NOW)
    assert gateways.leave("g", now=NOW + 1, **WHO)
    assert not gateways.leave("g", now=NOW + 2)
    assert told("gateway.left") == [{"gateway": "g", "why": "it was removed"}]
    assert not Breaker.objects.using(FACTS).exists()
    assert list(OpenRooms.objects.using(FACTS).values_list("group", "open_rooms")) == [(1, 3)]
    assert queries.listing() == () and queries.listing(left=True)[0].state(NOW) == "left"
    with pytest.raises(Refused, match="no gateway is named h"):
        gateways.leave("h")
    assert gateways.join("g", "", 15, NOW + 3).changed, "it is an event again"


def test_a_gateway_is_silent_once_its_lease_is_over_and_every_word_of_it_renews_that():
    gateways.join("g", "", 10, NOW)
    assert queries.gateway("g").state(NOW + 10) == "present"
    row = queries.gateway("g")
    assert row.state(NOW + 10.1) == "silent" and "may still admit" in row.sentence(NOW + 11)
    gateways.report_open_rooms("gateway", "g", [], NOW + 8)
    assert queries.gateway("g").state(NOW + 17) == "present"
    # A report that took long on its way does not make it look older.
    gateways.report_outcomes("g", [], NOW + 2)
    assert queries.gateway("g").seen_at == NOW + 8


def test_many_that_join_at_once_are_one_event_each():
    def join() -> None:
        for number in range(4):
            gateways.join(f"g{number}", "", 15, NOW)
        connections.close_all()

    threads = [threading.Thread(target=join) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(data["gateway"] for data in told("gateway.joined")) == ["g0", "g1", "g2", "g3"]


def test_the_number_of_gateways_is_bounded(monkeypatch):
    monkeypatch.setattr(gateways, "MAX_GATEWAYS", 2)
    for name in "ab":
        gateways.join(name, "", 15, NOW)
    with pytest.raises(Refused, match="2 gateways have joined"):
        gateways.join("c", "", 15, NOW)
    assert [row.name for row in queries.listing()] == ["a", "b"]
    gateways.leave("a")
    assert gateways.join("c", "", 15, NOW).changed
