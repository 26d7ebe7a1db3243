"""Actions from the pages: shown with what they would mean, done as they were shown, undone from the notice, and audited."""

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from controlplane.acts.table import ACTS
from controlplane.commands import drains, intent
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import head, latest
from controlplane.models import Attempt, Drain, GroupIntent, Instance, Request, Suspicion
from dashboard.views.acting import Acting
from tests.controlplane.api.client import token_of
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import Pages, queries, text_of

HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')
ASKED = {"HX-Request": "true"}


@pytest.fixture
def world(on_backend) -> World:
    """prefill-a with one launch of two DP groups of two ranks, all of them answering."""
    world = World("prefill-a")
    world.launch(Topology(2, 1, 2, 1), first_port=9000)
    return world


class Shown:
    """A dialog as the server sent it: its words, and its hidden fields as a browser would send them."""

    def __init__(self, answer: Any) -> None:
        self.status = answer.status_code
        self.html = answer.content.decode()
        self.text = text_of(self.html)
        self.fields: dict[str, list[str]] = {}
        for name, value in HIDDEN.findall(self.html):
            if name != "csrfmiddlewaretoken":
                self.fields.setdefault(name, []).append(unescape(value))


def ask(pages: Pages, act: str, *on: str) -> Shown:
    return Shown(pages.client.get(f"/act/{act}", {"on": on}, headers=ASKED))


def post(pages: Pages, act: str, fields: dict[str, Any], **more: Any):
    return pages.client.post(f"/act/{act}", {**fields, **more}, headers=ASKED)


def do(pages: Pages, act: str, *on: str, **more: Any):
    return post(pages, act, ask(pages, act, *on).fields, **{"reason": "a disk fails", **more})


def toast(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200 and answer["HX-Trigger"] == "pdcp:refresh", answer.content.decode()
    return json.loads(answer.content)["toast"]


def stored(name: str = "prefill-a") -> Instance:
    return Instance.objects.using(FACTS).get(name=name)


def kept() -> list[tuple[Any, ...]]:
    columns = ("action", "target", "allowed", "status", "actor", "via", "reason")
    return list(Attempt.objects.exclude(action="sign-in").order_by("id").values_list(*columns))


def test_a_drain_is_asked_with_what_it_would_take_away_and_begun_with_its_reason_and_audit_row(operator, world):
    shown = ask(operator, "drain", "prefill-a")
    for words in (
        "Drain prefill-a? 4 ranks, no room in flight.",
        "4 → 0 ranks, 2 → 0 DP groups, 1 → 0 prefill instances",
        "nobody who chooses workers is known",
        "version 1",
        'If-Match: "1"',
        "python manage.py drain prefill-a --reason",
    ):
        assert words in shown.text, words
    answer = post(operator, "drain", shown.fields, reason="a disk fails", deadline_minutes="30", min_ready="0")
    told = toast(answer)
    assert told["text"] == "prefill-a is draining." and told["tone"] == "ok"
    drain = Drain.objects.get()
    assert (stored().intent, drain.group, drain.actor, drain.reason) == ("draining", -1, "operator-ann", "a disk fails")
    assert 1700 < drain.deadline_at - drain.started_at <= 1800
    events = [event for event in latest(10) if event.kind in ("intent.changed", "drain.started")]
    assert [(event.actor, event.reason) for event in events] == [("operator-ann", "a disk fails")] * 2
    assert kept() == [("instance.drain", "prefill-a", True, 200, "operator-ann", "page", "a disk fails")]


def test_the_dialog_is_a_page_of_its_own_for_whoever_comes_without_scripts(operator, world):
    page = Shown(operator.client.get("/act/cordon?on=prefill-a", headers={"Referer": "http://localhost/drains/?x=1"}))
    assert page.status == 200 and "<html" in page.html and "Cordon prefill-a?" in page.text
    assert page.fields["back"] == ["/drains/?x=1"]
    done = operator.client.post("/act/cordon", {**page.fields, "reason": "x"})
    said = Shown(done)
    assert said.status == 200 and "<html" in said.html and "prefill-a is cordoned" in said.text
    assert 'href="/drains/?x=1"' in said.html and stored().intent == "cordoned"
    # What it says is a form that takes it back.
    undone = operator.client.post("/act/uncordon", said.fields)
    assert "prefill-a is enabled again" in Shown(undone).text and stored().intent == "enabled"
    # And its frame lives like that of any page.
    assert 'id="part-frame"' in operator.get("/act/cordon", parts="frame")


def test_each_action_does_what_its_command_does(operator, world, monkeypatch):
    monkeypatch.setattr(Acting, "patience", 0.0)
    steps = [
        ("cordon", {}, "cordoned"),
        ("uncordon", {}, "enabled"),
        ("drain", {"min_ready": 0}, "draining"),
        ("cancel-drain", {"to": "cordoned"}, "cordoned"),
        ("drain", {"min_ready": 0}, "draining"),
        ("cancel-drain", {"to": "enabled"}, "enabled"),
        ("drain", {"min_ready": 0}, "draining"),
        ("force-drain", {}, "draining"),
        ("uncordon", {}, "enabled"),
    ]
    for act, answers, after in steps:
        toast(do(operator, act, "prefill-a", **answers))
        assert stored().intent == after, act
        assert (stored().intent_actor, stored().intent_reason) == ("operator-ann", "a disk fails"), act
    for kind in ("evict", "reregister", "readmit", "supersede"):
        said = toast(do(operator, kind, "prefill-a"))["text"]
        assert "has not answered yet" in said and f"{kind} prefill-a" in said
        made = Request.objects.get(kind=kind)
        assert (made.instance, made.slot, made.actor, made.reason) == ("prefill-a", "", "operator-ann", "a disk fails")
    assert "are asked now" in toast(do(operator, "suspect", "prefill-a"))["text"]
    assert Suspicion.objects.get().by == "operator-ann"
    toast(do(operator, "retire", "prefill-a", typed="prefill-a"))
    assert stored().intent == "retired"
    said = toast(do(operator, "purge", "prefill-a", typed="prefill-a"))["text"]
    assert "has not answered yet" in said and "purge prefill-a" in said
    assert {row[:4] for row in kept()} == {(f"instance.{act}", "prefill-a", True, 200) for act in ACTS}


def test_a_rank_stands_for_its_dp_group_where_only_a_group_can_be_spared(operator, world):
    shown = ask(operator, "drain", "prefill-a:1:dp1.cp0.tp0.pp0")
    assert "A single rank cannot be spared" in shown.text and shown.fields["on"] == ["prefill-a:dp1"]
    assert "--dp 1" in shown.text and '"dp": 1' in shown.text
    evict = ask(operator, "evict", "prefill-a:1:dp1.cp0.tp0.pp0")
    assert "10.0.0.1:9002" in evict.text and "--slot dp1.cp0.tp0.pp0" in evict.text


def test_what_was_done_can_be_undone_and_ends_where_it_began(operator, world):
    for act, before, after in (("cordon", "enabled", "cordoned"), ("drain", "cordoned", "draining")):
        if before == "cordoned":
            do(operator, "cordon", "prefill-a")
        undo = toast(do(operator, act, "prefill-a"))["undo"]
        assert stored().intent == after
        told = toast(post(operator, undo["act"], undo["fields"]))
        assert stored().intent == before and told["undo"] is None
        assert stored().intent_reason == f"undo of {act}: a disk fails"
    undo = toast(do(operator, "uncordon", "prefill-a"))["undo"]
    toast(post(operator, undo["act"], undo["fields"]))
    assert stored().intent == "cordoned"
    # A drain that was cancelled by it does not begin again, so there is no way back.
    do(operator, "drain", "prefill-a")
    assert toast(do(operator, "uncordon", "prefill-a"))["undo"] is None
    assert toast(do(operator, "uncordon", "prefill-a"))["undo"] is None


def test_nobody_undoes_what_somebody_else_did_since(operator, world):
    undo = toast(do(operator, "cordon", "prefill-a"))["undo"]
    drains.drain("prefill-a", actor="bob", reason="his own")
    late = Shown(post(operator, undo["act"], undo["fields"]))
    assert late.status == 412 and "cordoned by operator-ann" in late.text and "draining by bob" in late.text
    assert stored().intent == "draining" and kept()[-1][:4] == ("instance.uncordon", "prefill-a", True, 412)


def test_a_confirmation_of_what_is_no_longer_so_shows_the_difference_and_can_be_given_again(operator, world):
    shown = ask(operator, "cordon", "prefill-a")
    intent.cordon("prefill-a", actor="bob", reason="he was faster")
    before = head()
    late = Shown(post(operator, "cordon", shown.fields, reason="x"))
    assert late.status == 412
    assert "instance enabled" not in late.text and "instance: enabled → cordoned by bob" in late.text
    assert "version 1 → 2" in late.text and head() == before
    assert toast(post(operator, "cordon", late.fields, reason="x"))["text"].startswith("prefill-a is cordoned already")


def test_the_answers_are_looked_at_again_without_doing_anything(operator, world):
    shown = ask(operator, "drain", "prefill-a")
    again = Shown(post(operator, "drain", shown.fields, reason="", min_ready="1", step="look"))
    assert again.status == 200 and "0 instances of the role stay, 1 needed" in again.text
    assert (
        "required" not in again.text
        and "--min-ready 1" in again.text
        and "it would be: 0 routable prefill instances" in again.text
    )
    refused = Shown(post(operator, "drain", shown.fields, reason="x", min_ready="1"))
    assert refused.status == 409 and "0 routable prefill instances would remain, and 1 are wanted" in refused.text
    assert (stored().intent, kept()[-1][3]) == ("enabled", 409)


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"reason": " "}, "This field is required."),
        ({"reason": "x", "min_ready": "many"}, "Enter a whole number."),
        ({"reason": "x", "deadline_minutes": "-5"}, "greater than or equal to 1"),
        ({"reason": "x" * 2001}, "at most 2000 characters"),
        ({"reason": "a\x00b"}, "Null characters are not allowed."),
    ],
)
def test_answers_that_do_not_hold_come_back_with_a_sentence_beside_them(operator, world, answers, sentence):
    shown = Shown(post(operator, "drain", ask(operator, "drain", "prefill-a").fields, **answers))
    assert shown.status == 422 and sentence in shown.text and 'aria-invalid="true"' in shown.html
    assert stored().intent == "enabled" and kept()[-1][3] == 422


def test_retiring_takes_the_name_typed(operator, world):
    shown = ask(operator, "retire", "prefill-a")
    assert "type prefill-a" in shown.text
    wrong = Shown(post(operator, "retire", shown.fields, reason="x", typed="prefill-b"))
    assert wrong.status == 422 and "Type prefill-a to confirm" in wrong.text and stored().intent == "enabled"
    assert toast(post(operator, "retire", shown.fields, reason="x", typed="prefill-a"))["undo"] is None
    assert stored().intent == "retired"


def test_several_are_done_together_as_many_as_were_shown(operator, world):
    World("prefill-b"), World("prefill-c")
    names = ["prefill-a", "prefill-b", "prefill-c"]
    shown = ask(operator, "cordon", *names)
    assert "Cordon 3 targets?" in shown.text and "1 → 0 prefill instances" in shown.text
    for on in (names[:2], [*names, "prefill-a:dp1"]):
        refused = Shown(post(operator, "cordon", shown.fields, on=on, reason="x"))
        assert refused.status in (412, 422)
        assert "targets would be concerned, and not as many as were shown" in refused.text
    intent.cordon("prefill-b", actor="bob", reason="x")
    assert Shown(post(operator, "cordon", shown.fields, reason="x")).status == 412
    assert [stored(name).intent for name in names] == ["enabled", "cordoned", "enabled"]
    told = toast(do(operator, "cordon", *names))
    assert told["text"] == "Cordon: 3 done, prefill-a, prefill-b, prefill-c; 1 of them were so already."
    # Only what was changed is taken back.
    assert told["undo"]["fields"]["on"] == ["prefill-a", "prefill-c"]
    toast(post(operator, told["undo"]["act"], told["undo"]["fields"]))
    assert [stored(name).intent for name in names] == ["enabled", "cordoned", "enabled"]
    assert Shown(do(operator, "retire", "prefill-a", "prefill-c")).status == 422
    toast(do(operator, "retire", "prefill-a", "prefill-c", typed="retire 2"))


def test_two_dp_groups_of_one_instance_are_done_one_after_the_other(operator, world):
    told = toast(do(operator, "cordon", "prefill-a:dp0", "prefill-a:dp1"))
    assert list(GroupIntent.objects.order_by("group").values_list("group", "intent")) == [
        (0, "cordoned"),
        (1, "cordoned"),
    ]
    toast(post(operator, told["undo"]["act"], told["undo"]["fields"]))
    assert not GroupIntent.objects.exists()


def test_of_several_what_is_refused_stands_beside_what_was_done(operator, world):
    other = World("prefill-b")
    other.launch(Topology(1, 1, 1, 1), first_port=9500)
    refused = Shown(do(operator, "drain", "prefill-a", "prefill-b", min_ready="1"))
    assert refused.status == 409 and "Not all of it was done" in refused.text
    assert "prefill-a: prefill-a is draining" in refused.text and "prefill-b is not drained: 0 routable" in refused.text
    assert (stored("prefill-a").intent, stored("prefill-b").intent) == ("draining", "enabled")
    assert [row[1:4] for row in kept()] == [("prefill-a", True, 200), ("prefill-b", True, 409)]


def test_who_may_act_and_who_may_not(operator, viewer, admin, nobody, stranger, world):
    before = head()
    for name in ACTS:
        for pages, status in ((viewer, 403), (operator, 200), (admin, 200)):
            assert ask(pages, name, "prefill-a").status == status, name
        answer = Shown(post(viewer, name, {"on": "prefill-a", "reason": "x"}))
        assert answer.status == 403 and "this needs the role operator" in answer.text.lower()
        assert kept()[-1][:5] == (f"instance.{name}", "prefill-a", False, 403, "viewer-ann")
        assert nobody.client.post(f"/act/{name}", {"on": "prefill-a"}).status_code == 403
        assert stranger.client.get(f"/act/{name}", headers=ASKED).status_code == 401
    assert head() == before


def test_what_does_not_exist_is_said_and_nothing_breaks(operator, world):
    for on in ("ghost", "a b", "", "prefill-a:dp99999999", "prefill-a:1:dp0", "\x00", "<script>"):
        status = 404 if on == "ghost" else 400
        assert ask(operator, "drain", on).status == status, on
        answer = post(operator, "drain", {"on": on, "reason": "x"})
        assert answer.status_code == status and b"<script>" not in answer.content
        assert kept()[-1][:4] == ("instance.drain", on.replace("\x00", "\ufffd"), True, status)
    operator.get("/act/explode?on=prefill-a", status=404)
    operator.get("/act/drain", status=400)
    assert ask(operator, "drain", *[f"prefill-{n}" for n in range(101)]).status == 400
    assert "dp7 does not exist in prefill-a" in ask(operator, "drain", "prefill-a:dp7").text


def test_seen_and_count_of_somebody_s_own_making_fool_nobody(operator, world):
    for seen in ("", "[]", "7", '{"prefill-a": 3}', "{" * 2000, '{"prefill-a": {"pin": "99"}}'):
        answer = post(operator, "cordon", {"on": "prefill-a", "reason": "x", "count": "1", "seen": seen})
        assert answer.status_code == 412 and stored().intent == "enabled", seen


def test_the_way_back_is_one_of_ours(operator, world):
    for back in ("https://evil.example/", "//evil.example/", "javascript:alert(1)", "/act/drain?on=x"):
        page = Shown(operator.client.get("/act/cordon", {"on": "prefill-a", "back": back}))
        assert page.fields["back"] == ["/"]


def test_a_form_that_is_not_ours_is_refused(operator, world):
    strict = Client(enforce_csrf_checks=True, SERVER_NAME="localhost")
    strict.cookies = operator.client.cookies
    assert strict.post("/act/cordon", {"on": "prefill-a", "reason": "x"}).status_code == 403
    assert stored().intent == "enabled"


def test_reasons_of_others_are_text(operator, world):
    intent.cordon("prefill-a", actor="bob", reason="<script>alert(1)</script>")
    shown = ask(operator, "uncordon", "prefill-a")
    assert "<script>" not in shown.html and "<script>alert(1)</script>" in shown.text


def test_a_dialog_costs_the_same_in_a_large_fleet(operator, world):
    with queries() as one:
        small = ask(operator, "drain", "prefill-a")
    for number in range(12):
        World(f"other-{number}").launch(Topology(2, 1, 2, 1), first_port=10_000 + 10 * number)
    with queries() as many:
        ask(operator, "drain", "prefill-a")
    assert len(one) == len(many) <= 60, len(many)
    with queries() as bulk:
        large = ask(operator, "drain", *[f"other-{number}" for number in range(12)])
    assert len(bulk) <= len(one), len(bulk)
    assert len(small.html) < 9_000 and len(large.html) < 30_000


def test_who_confirms_an_evict_means_the_launch_that_was_shown(operator, world):
    shown = ask(operator, "evict", "prefill-a")
    assert "1 (current)" in shown.text
    world.launch(Topology(2, 1, 2, 1), first_port=4400, token="another")
    late = Shown(post(operator, "evict", shown.fields, reason="it hangs"))
    assert late.status == 412 and "2 (candidate)" in late.text


def test_a_token_of_one_instance_is_told_of_no_other(operator, world):

    token = token_of("read", instance="prefill-a")
    client = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {token}"})
    assert client.get("/instances/prefill-a/").status_code == 200
    assert client.get("/instances/prefill-a/?tab=pairs").status_code == 403
    assert client.get("/").status_code == 403


def test_a_form_that_does_not_say_what_it_was_shown_for_is_refused(operator, world):
    answer = operator.client.post("/act/edit", {"on": "prefill-a", "reason": "x", "own_port": "9123"})
    assert answer.status_code == 400 and "which version" in answer.content.decode()
