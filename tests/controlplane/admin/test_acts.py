"""Actions on instances: the same commands as everywhere, asked for with a reason, looked at, confirmed, and audited."""

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from controlplane.acts.table import ACTS, DRAIN, INSTANCE, RANK
from controlplane.commands import intent
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import head, latest
from controlplane.models import Attempt, Drain, GroupIntent, Instance, Request
from tests.controlplane.queries.world import World

from .page import Page

INSTANCES = "/admin/controlplane/instance/"


@pytest.fixture
def world(people) -> World:
    """prefill-a with one launch of two DP groups of two ranks, all of them answering."""
    world = World("prefill-a")
    world.launch(Topology(2, 1, 2, 1), first_port=9000)
    return world


def ask(client: Client, act: str, *on: str, **answers):
    """Give the answers and see what would be done."""
    address = f"/admin/act/{act}/"
    page = Page(client.get(address, {"on": on, "back": INSTANCES}))
    assert page.status == 200, page.text
    return Page(client.post(address, page.form(reason="a disk fails", step="plan", **answers)))


def confirm(client: Client, act: str, shown: Page, **more):
    return client.post(f"/admin/act/{act}/", shown.form(step="confirm", **more))


def do(client: Client, act: str, *on: str, typed: str = "", **answers):
    return confirm(client, act, ask(client, act, *on, **answers), typed=typed)


def stored(name: str = "prefill-a") -> Instance:
    return Instance.objects.using(FACTS).get(name=name)


def kept() -> list[tuple[str, str, bool, int, str, str, str, str]]:
    columns = ("action", "target", "allowed", "status", "actor", "via", "source", "reason")
    return list(Attempt.objects.exclude(action="sign-in").order_by("id").values_list(*columns))


def said(client: Client) -> str:
    return Page(client.get(INSTANCES)).text


def test_from_the_list_through_reason_and_plan_to_a_drain_with_its_event_and_audit_row(people, world):
    operator = people["operator"]
    picked = operator.post(INSTANCES, {"action": "drain", "_selected_action": [str(world.row.pk)]})
    assert picked.status_code == 302
    assert picked["Location"] == "/admin/act/drain/?on=prefill-a&back=%2Fadmin%2Fcontrolplane%2Finstance%2F"

    form = Page(operator.get(picked["Location"]))
    assert form.status == 200 and form.inline == []
    for words in ("Drain: prefill-a", "Reason", "Deadline (minutes)", "Min ready", "enabled", "4 registered"):
        assert words in form.text
    empty = Page(operator.post("/admin/act/drain/", form.form(reason=" ", min_ready=0, step="plan")))
    assert empty.status == 400 and "This field is required." in empty.text

    answers = {"reason": "a disk fails", "min_ready": 0, "deadline_minutes": 30, "step": "plan"}
    plan = Page(operator.post("/admin/act/drain/", form.form(**answers)))
    assert plan.status == 200 and plan.inline == []
    assert "1 routable prefill instance with 2 DP groups" in plan.text.replace("Of ", "")
    assert "Admission cannot be stopped from here" in plan.text
    assert (stored().intent, Drain.objects.count()) == ("enabled", 0)

    done = confirm(operator, "drain", plan)
    assert (done.status_code, done["Location"]) == (302, INSTANCES)
    assert "prefill-a is draining." in said(operator)
    drain = Drain.objects.get()
    assert (stored().intent, drain.group, drain.actor, drain.reason) == ("draining", -1, "operator-ann", "a disk fails")
    assert 1700 < drain.deadline_at - drain.started_at <= 1800
    events = [event for event in latest(10) if event.kind in ("intent.changed", "drain.started")]
    assert [(event.actor, event.reason) for event in events] == [("operator-ann", "a disk fails")] * 2
    source = operator.defaults["REMOTE_ADDR"]
    assert kept() == [("instance.drain", "prefill-a", True, 200, "operator-ann", "admin", source, "a disk fails")]
    assert (
        Attempt.objects.exclude(action="sign-in").get().request_id
        and "is draining" in Attempt.objects.exclude(action="sign-in").get().outcome
    )


def test_each_action_does_what_its_command_does(people, world):
    operator = people["operator"]
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
        assert do(operator, act, "prefill-a", **answers).status_code == 302, act
        assert stored().intent == after, act
        assert (stored().intent_actor, stored().intent_reason) == ("operator-ann", "a disk fails"), act
    for kind in ("evict", "reregister", "readmit", "supersede"):
        assert do(operator, kind, "prefill-a").status_code == 302, kind
        made = Request.objects.get(kind=kind)
        assert (made.instance, made.slot, made.actor, made.reason) == ("prefill-a", "", "operator-ann", "a disk fails")
        page = Page(operator.get(INSTANCES))
        assert page.links["See its answer."] == reverse("admin:controlplane_request_change", args=[made.pk])
    assert do(operator, "suspect", "prefill-a").status_code == 302
    assert do(operator, "retire", "prefill-a", typed="prefill-a").status_code == 302
    assert stored().intent == "retired"
    assert do(operator, "purge", "prefill-a", typed="prefill-a").status_code == 302
    assert Request.objects.get(kind="purge").reason == "a disk fails"
    assert len(kept()) == len(steps) + 7
    assert set(kept()) == {
        (
            f"instance.{act}",
            "prefill-a",
            True,
            200,
            "operator-ann",
            "admin",
            operator.defaults["REMOTE_ADDR"],
            "a disk fails",
        )
        for act in ACTS
    }


def test_who_may_act_and_who_may_not(people, world):
    """Every action, every role, every step of it, on the server's side."""
    before = head()
    for name in ACTS:
        for role in ("viewer", "operator", "admin"):
            wanted = 200 if role != "viewer" else 403
            answer = people[role].get(f"/admin/act/{name}/?on=prefill-a")
            assert answer.status_code == wanted, (name, role)
        for step in ("plan", "confirm"):
            answer = people["viewer"].post(f"/admin/act/{name}/", {"on": "prefill-a", "reason": "x", "step": step})
            assert answer.status_code == 403, name
            assert kept()[-1][:5] == (f"instance.{name}", "prefill-a", False, 403, "viewer-ann")
        for who in ("stranger", "nobody"):
            assert people[who].post(f"/admin/act/{name}/", {"on": "prefill-a"}).status_code == 302
    assert head() == before
    for address in (INSTANCES, "/admin/controlplane/drain/", "/admin/controlplane/rank/"):
        for name in ACTS:
            data = {"action": name, "_selected_action": [str(world.row.pk)]}
            if address.endswith("rank/") and RANK not in ACTS[name].on:
                continue
            assert people["viewer"].post(address, data).status_code == 403, (address, name)
        assert 'name="action"' not in people["viewer"].get(address).content.decode()
    assert kept()[-1][2:5] == (False, 403, "viewer-ann")


def test_lists_offer_what_the_table_of_actions_says(people, world):
    do(people["operator"], "drain", "prefill-a", min_ready=0)
    for address, kind in (
        (INSTANCES, INSTANCE),
        ("/admin/controlplane/drain/", DRAIN),
        ("/admin/controlplane/rank/", RANK),
    ):
        html = people["operator"].get(address).content.decode()
        for name, act in ACTS.items():
            assert (f'<option value="{name}">' in html) == (kind in act.on), (kind, name)
    own = Page(people["operator"].get(f"{INSTANCES}{world.row.pk}/change/"))
    assert own.links["Drain"].startswith("/admin/act/drain/?on=prefill-a&back=")
    assert "Drain" not in Page(people["viewer"].get(f"{INSTANCES}{world.row.pk}/change/")).links


def test_a_confirmation_of_what_is_no_longer_so_is_refused_with_the_difference(people, world):
    operator = people["operator"]
    shown = ask(operator, "cordon", "prefill-a")
    intent.cordon("prefill-a", actor="bob", reason="he was faster")
    before = head()
    late = Page(confirm(operator, "cordon", shown))
    assert late.status == 412
    assert "instance: enabled → cordoned by bob" in late.text and "he was faster" in late.text
    assert "version 1 → 2" in late.text
    assert head() == before
    assert kept()[-1][:4] == ("instance.cordon", "prefill-a", True, 412)
    # What is shown now can be confirmed.
    assert confirm(operator, "cordon", late).status_code == 302


def test_a_change_between_the_questions_and_the_plan_is_pointed_out(people, world):
    operator = people["operator"]
    form = Page(operator.get("/admin/act/cordon/?on=prefill-a"))
    intent.cordon("prefill-a", group=1, actor="bob", reason="first")
    plan = Page(operator.post("/admin/act/cordon/", form.form(reason="x", step="plan")))
    assert plan.status == 200 and "This changed since you looked" in plan.text


def test_somebody_faster_than_the_last_look_is_refused_by_the_command_itself(people, world, monkeypatch):
    """Between our look and the command's lock there is a moment, in which somebody may come."""
    from controlplane.admin import acting

    operator = people["operator"]
    shown = ask(operator, "cordon", "prefill-a")
    looked = acting.look

    def look_and_be_overtaken(targets, **how):
        standings = looked(targets, **how)
        intent.cordon("prefill-a", actor="bob", reason="he was faster")
        return standings

    monkeypatch.setattr(acting, "look", look_and_be_overtaken)
    assert confirm(operator, "cordon", shown).status_code == 302
    assert "prefill-a was changed by bob meanwhile (version 1 → 2)" in said(operator)
    assert (stored().intent_actor, kept()[-1][3]) == ("bob", 412)


def test_several_at_once_are_all_shown_and_their_number_must_still_hold(people, world):
    operator = people["operator"]
    World("prefill-b"), World("prefill-c")
    names = ["prefill-a", "prefill-b", "prefill-c"]
    ids = [str(pk) for pk in Instance.objects.values_list("pk", flat=True)]
    picked = operator.post(INSTANCES, {"action": "cordon", "_selected_action": ids})
    assert [f"on={name}" in picked["Location"] for name in names] == [True] * 3
    shown = ask(operator, "cordon", *names)
    assert "Cordon 3 targets" in shown.html and "3 targets" in shown.text

    fewer = shown.form(step="confirm") | {"on": names[:2]}
    refused = Page(operator.post("/admin/act/cordon/", fewer))
    assert refused.status == 400 and "2 targets would be concerned, and not as many as were shown." in refused.text
    more = ask(operator, "cordon", *names[:2]).form(step="confirm") | {"on": names}
    assert operator.post("/admin/act/cordon/", more).status_code == 412
    assert {stored(name).intent for name in names} == {"enabled"}

    # One of them changed: none is touched.
    intent.cordon("prefill-b", actor="bob", reason="x")
    assert confirm(operator, "cordon", shown).status_code == 412
    assert [stored(name).intent for name in names] == ["enabled", "cordoned", "enabled"]
    assert do(operator, "cordon", *names).status_code == 302
    assert {stored(name).intent for name in names} == {"cordoned"}
    assert [row[1] for row in kept()[-3:]] == names


def test_two_dp_groups_of_one_instance_are_done_one_after_the_other(people, world):
    assert do(people["operator"], "cordon", "prefill-a:dp0", "prefill-a:dp1").status_code == 302
    assert list(GroupIntent.objects.order_by("group").values_list("group", "intent")) == [
        (0, "cordoned"),
        (1, "cordoned"),
    ]
    assert [row[1] for row in kept()] == ["prefill-a dp0", "prefill-a dp1"]


def test_a_budget_refuses_and_the_plan_says_so_first(people, world):
    shown = ask(people["operator"], "drain", "prefill-a", min_ready=1)
    assert "Would be refused: 0 routable prefill instances would remain, and 1 are wanted" in shown.text
    # Whoever sends it all the same is refused by the command.
    assert confirm(people["operator"], "drain", shown).status_code == 302
    assert "0 routable prefill instances would remain" in said(people["operator"])
    assert (stored().intent, kept()[-1][3]) == ("enabled", 409)


def test_retiring_takes_the_name_typed(people, world):
    operator = people["operator"]
    shown = ask(operator, "retire", "prefill-a")
    assert "Type prefill-a to confirm" in shown.text
    wrong = Page(confirm(operator, "retire", shown, typed="prefill-b"))
    assert wrong.status == 400 and stored().intent == "enabled"
    assert confirm(operator, "retire", shown, typed="prefill-a").status_code == 302
    assert stored().intent == "retired"


def test_answers_can_be_changed_before_confirming(people, world):
    operator = people["operator"]
    shown = ask(operator, "drain", "prefill-a", min_ready=1)
    again = Page(operator.post("/admin/act/drain/", shown.form(step="change")))
    assert again.status == 200 and "a disk fails" in again.html and "Show the plan" in again.text
    assert stored().intent == "enabled"


def test_an_open_drain_is_cancelled_from_the_list_of_drains(people, world):
    operator = people["operator"]
    do(operator, "drain", "prefill-a:dp1", min_ready=0)
    drain = Drain.objects.get()
    data = {"action": "cancel-drain", "_selected_action": [str(drain.pk)]}
    picked = operator.post("/admin/controlplane/drain/", data)
    assert "on=prefill-a%3Adp1" in picked["Location"]
    do(operator, "cancel-drain", "prefill-a:dp1", to="enabled")
    assert Drain.objects.get().progress == "cancelled"


def test_what_does_not_exist_is_said_and_nothing_breaks(people, world):
    operator = people["operator"]
    for on in ("ghost", "a b", "", "prefill-a:dp99999999", "prefill-a:1:dp0", "\x00", "<script>"):
        for answer in (
            operator.get("/admin/act/drain/", {"on": on}),
            operator.post("/admin/act/drain/", {"on": on, "reason": "x", "step": "confirm"}),
        ):
            assert (answer.status_code, answer["Location"]) == (302, INSTANCES), on
        assert kept()[-1][:4] == ("instance.drain", on.replace("\x00", "\ufffd"), True, 404 if on == "ghost" else 400)
        assert "<script>" not in operator.get(INSTANCES).content.decode()
    assert operator.get("/admin/act/explode/?on=prefill-a").status_code == 404


def test_the_way_back_is_one_of_ours(people, world):
    for back in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        page = Page(people["operator"].get("/admin/act/cordon/", {"on": "prefill-a", "back": back}))
        assert page.fields["back"] == [INSTANCES]


def test_a_form_that_is_not_ours_is_refused(people, world):
    operator = Client(enforce_csrf_checks=True, SERVER_NAME="localhost")
    operator.force_login(User.objects.get(username="operator-ann"), settings.AUTHENTICATION_BACKENDS[0])
    shown = Page(operator.get("/admin/act/cordon/?on=prefill-a"))
    assert operator.post("/admin/act/cordon/", shown.form(reason="x", step="plan")).status_code == 403


def test_too_many_are_refused_with_a_sentence(people, world):
    answer = people["operator"].get("/admin/act/cordon/", {"on": [f"prefill-{n}" for n in range(101)]})
    assert answer.status_code == 302
    assert "at most 100 can be looked through at once" in said(people["operator"])
