"""Actions from the pages when something is in the way: two launches, a database that goes, a session that changed."""

from typing import Any

from django.db import OperationalError

from controlplane.commands import intent
from controlplane.domain.topology import Topology
from controlplane.models import Request
from tests.controlplane.queries.world import World
from tests.dashboard.test_acting import Shown, ask, kept, post, stored, world

__all__ = ["world"]


def test_a_slot_that_two_launches_hold_is_evicted_from_the_one_that_was_shown(operator, world):
    world.launch(Topology(2, 1, 2, 1), first_port=9100, skip=1)
    shown = ask(operator, "evict", "prefill-a:2:dp1.cp0.tp0.pp0")
    assert "launch 2 at 10.0.0.1:9102; launch 1 at 10.0.0.1:9002 sits in this slot too" in shown.text
    assert "1 rank" in shown.text
    # Whoever sits there is what is confirmed.
    world.refuse(9002)
    assert Shown(post(operator, "evict", shown.fields, reason="x")).status == 412
    again = ask(operator, "evict", "prefill-a:2:dp1.cp0.tp0.pp0")
    assert Shown(post(operator, "evict", again.fields, reason="x")).status == 200
    request = Request.objects.get()
    assert (request.slot, request.launch) == ("1.0.0.0", 2)


def test_what_was_done_before_the_database_went_away_is_told_and_audited(operator, world, monkeypatch):
    World("prefill-b")
    shown = ask(operator, "cordon", "prefill-a", "prefill-b")
    cordon = intent.cordon

    def fails(name: str, **given: Any):
        if name == "prefill-b":
            raise OperationalError("the server closed the connection")
        return cordon(name, **given)

    monkeypatch.setattr(intent, "cordon", fails)
    said = Shown(post(operator, "cordon", shown.fields, reason="x"))
    assert said.status == 409 and "prefill-a is cordoned" in said.text and "nobody knows whether" in said.text
    assert [row[1:4] for row in kept()] == [("prefill-a", True, 200), ("prefill-b", True, 503)]


def test_a_form_of_another_session_does_nothing_and_says_why_with_the_request_id(operator, world):
    fields = ask(operator, "cordon", "prefill-a").fields
    operator.client.handler.enforce_csrf_checks = True
    answer = post(operator, "cordon", fields, reason="x", csrfmiddlewaretoken="c" * 32)
    said = Shown(answer)
    assert said.status == 403 and "does not belong to your session" in said.text and "Request" in said.text
    assert stored().intent == "enabled" and kept() == []


def test_an_address_that_is_none_leads_back_to_the_overview(operator, world):
    for came in ("http://[", "http://elsewhere/x", "//localhost/act/cordon"):
        page = Shown(operator.client.get("/act/cordon?on=prefill-a", headers={"Referer": came}))
        assert page.status == 200 and page.fields["back"] == ["/"]


def test_more_than_can_be_planned_with_a_number_that_must_stay_are_refused_and_audited(operator, world):
    names = [f"prefill-{number}" for number in range(21)]
    for name in names:
        World(name)
    fields = ask(operator, "drain", *names).fields
    said = Shown(post(operator, "drain", fields, reason="x", min_ready="1"))
    assert said.status == 400 and "at most 20 can be drained at once" in said.text
    assert [row[2:4] for row in kept()] == [(True, 400)] and kept()[0][1].startswith("prefill-0, prefill-1")
