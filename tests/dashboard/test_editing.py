"""Dialogs that are forms: instances, routers, gateways and tokens, each change through its command, with who and why."""

import re

import pytest

from controlplane.access import tokens
from controlplane.commands import gateways, instances, routers
from controlplane.databases import FACTS
from controlplane.ledger.tail import head, latest
from controlplane.models import Gateway, Instance, Router
from controlplane.models.access import MachineToken
from tests.dashboard.test_acting import Shown, ask, kept, post, toast

FORMS = {
    "add": "operator",
    "edit": "operator",
    "add-router": "operator",
    "edit-router": "operator",
    "remove-router": "operator",
    "remove-gateway": "operator",
    "make-token": "admin",
    "revoke-token": "admin",
}


@pytest.fixture
def routed(on_backend) -> None:
    """prefill-a and decode-b, and router east, which shall hold the first."""
    instances.add("prefill-a", own_port=9100, engine_url="http://10.0.0.1:30000", actor="bob")
    instances.add("decode-b", role="decode", actor="bob")
    routers.add("east", "http://10.0.0.9:30000", ["prefill-a"], actor="bob")


def stored(name: str) -> Instance:
    return Instance.objects.using(FACTS).get(name=name)


def test_an_instance_is_added_with_what_is_said_of_it(operator):
    shown = ask(operator, "add")
    assert "Add instance" in shown.text and "python manage.py instances add NAME" in shown.text
    given = {"name": "prefill-a", "role": "prefill", "own_port": "9101", "engine_key": "s3cret", "reason": "new rack"}
    told = toast(post(operator, "add", shown.fields, engine_url="http://10.0.0.1:30000", **given))
    assert told["text"].startswith("prefill-a was added as prefill, reached by port 9101")
    row = stored("prefill-a")
    assert (row.own_port, row.engine_url) == (9101, "http://10.0.0.1:30000") and row.engine_key not in ("", "s3cret")
    event = latest(1)[0]
    assert (event.kind, event.actor, event.reason) == ("instance.added", "operator-ann", "new rack")
    assert kept() == [("instance.add", "prefill-a", True, 200, "operator-ann", "page", "new rack")]
    again = Shown(post(operator, "add", shown.fields, **given))
    assert again.status == 409 and "There is an instance prefill-a already" in again.text
    assert "s3cret" not in again.html and 'value="9101"' in again.html


def test_an_instance_is_observed_at_the_servers_that_are_named_and_its_page_says_so(operator):
    shown = ask(operator, "add")
    at = {"observed_url": "http://10.0.0.1:8998", "observed_engine_info_url": "http://10.0.0.1:6789"}
    told = toast(post(operator, "add", shown.fields, name="a", role="prefill", reason="a new rack", **at))
    assert "observed at http://10.0.0.1:8998 and http://10.0.0.1:6789" in told["text"]
    page = operator.get("/instances/a/")
    assert "Observed at" in page and "http://10.0.0.1:8998" in page and "not asked yet" in page
    edit = ask(operator, "edit", "a")
    assert "instances edit a" in edit.text and "--observe http://10.0.0.1:8998" in edit.text
    kept_as_it_is = {"reason": "the weights are elsewhere", **at, "observed_engine_info_url": ""}
    toast(post(operator, "edit", edit.fields, **kept_as_it_is))
    assert (stored("a").observed_url, stored("a").observed_engine_info_url) == (at["observed_url"], "")


@pytest.mark.parametrize(
    ("given", "status", "sentence"),
    [
        ({"name": "a b", "role": "prefill"}, 400, "letters, digits"),
        ({"name": "a", "role": "boss"}, 422, "Select a valid choice"),
        ({"name": "a", "role": "prefill", "own_port": "99999"}, 422, "less than or equal to 65535"),
        ({"name": "a", "role": "prefill", "host_alias": "10.0.0.1"}, 400, "must be a DNS name"),
        ({"name": "a", "role": "prefill", "engine_url": "file:///etc/passwd"}, 400, "http"),
        ({"name": "", "role": "prefill"}, 422, "This field is required."),
    ],
)
def test_what_cannot_be_is_a_sentence_and_nothing_is_stored(operator, given, status, sentence):
    before = head()
    shown = Shown(post(operator, "add", {}, reason="x", **given))
    assert shown.status == status and sentence in shown.text
    assert head() == before and kept()[-1][3] == status


def test_an_edit_of_what_is_no_longer_so_shows_the_difference_and_can_be_given_again(operator, routed):
    shown = ask(operator, "edit", "prefill-a")
    assert 'value="9100"' in shown.html and shown.fields["expected"] == ["1"]
    instances.edit("prefill-a", own_port=9200, actor="bob", reason="he was faster")
    given = {"own_port": "9300", "host_alias": "", "engine_url": "http://10.0.0.1:30000", "reason": "x"}
    late = Shown(post(operator, "edit", shown.fields, **given))
    assert late.status == 412 and "own_port: 9100 → 9200" in late.text and "by bob" in late.text
    assert late.fields["expected"] == ["2"] and 'value="9300"' in late.html
    told = toast(post(operator, "edit", late.fields, **given))
    assert "prefill-a was changed, reached by port 9300" in told["text"] and stored("prefill-a").own_port == 9300


def test_a_key_stays_unless_it_is_given_anew_or_taken_away(operator, routed):
    given = {"own_port": "9100", "host_alias": "", "engine_url": "http://10.0.0.1:30000", "reason": "x"}
    toast(post(operator, "edit", ask(operator, "edit", "prefill-a").fields, **given, engine_key="s3cret"))
    sealed = stored("prefill-a").engine_key
    toast(post(operator, "edit", ask(operator, "edit", "prefill-a").fields, **{**given, "own_port": "9101"}))
    assert stored("prefill-a").engine_key == sealed != ""
    moved = {**given, "engine_url": "http://10.0.0.2:30000"}
    refused = Shown(post(operator, "edit", ask(operator, "edit", "prefill-a").fields, **moved))
    assert refused.status == 409 and "is not sent there" in refused.text
    toast(post(operator, "edit", ask(operator, "edit", "prefill-a").fields, **given, no_key="on"))
    assert stored("prefill-a").engine_key == ""


def test_routers_are_added_changed_and_let_go_of(operator, routed):
    given = {
        "name": "west",
        "url": "http://10.0.0.8:30000",
        "instances": "prefill-a\ndecode-b, decode-b",
        "reason": "x",
    }
    assert "router west is kept in step" in toast(post(operator, "add-router", {}, **given))["text"]
    shown = ask(operator, "edit-router", "east")
    assert "prefill-a" in shown.html and shown.fields["expected"] == ["1"]
    change = {"url": "http://10.0.0.9:30000", "instances": "decode-b", "metrics_url": "", "reason": "x"}
    toast(post(operator, "edit-router", shown.fields, **change))
    late = Shown(post(operator, "edit-router", shown.fields, **{**change, "instances": "prefill-a"}))
    assert late.status == 412 and "version: 1 → 2" in late.text and "instances: decode-b" in late.text
    unknown = Shown(post(operator, "edit-router", late.fields, **{**change, "instances": "ghost"}))
    assert unknown.status == 404 and "No instance is named ghost" in unknown.text
    told = toast(post(operator, "remove-router", ask(operator, "remove-router", "east").fields, reason="gone"))
    assert "is not kept in step any more" in told["text"] and not Router.objects.filter(name="east").exists()
    assert [row[0] for row in kept()] == ["router.add", "router.edit", "router.edit", "router.edit", "router.remove"]


def test_whoever_names_a_router_that_would_learn_a_key_is_an_administrator(operator, admin, routed):
    instances.edit("prefill-a", engine_key="s3cret", actor="bob")
    given = {"name": "west", "url": "http://10.0.0.8:30000", "instances": "prefill-a", "reason": "x"}
    refused = Shown(post(operator, "add-router", {}, **given))
    assert refused.status == 403 and "an administrator must name it" in refused.text
    assert not Router.objects.filter(name="west").exists() and kept()[-1][3] == 403
    toast(post(admin, "add-router", {}, **given))


def test_a_gateway_that_is_gone_is_removed(operator, on_backend):
    gateways.join("gw-1")
    shown = ask(operator, "remove-gateway", "gw-1")
    assert "it is heard from: it may go on sending requests" in shown.text
    assert toast(post(operator, "remove-gateway", shown.fields, reason="host died"))["text"] == "gw-1 was removed."
    assert Gateway.objects.get(name="gw-1").left_at is not None
    event = latest(1)[0]
    assert (event.kind, event.actor, event.reason) == ("gateway.left", "operator-ann", "host died")
    again = Shown(post(operator, "remove-gateway", shown.fields, reason="x"))
    assert again.status == 409 and "Gw-1 had left already" in again.text


def test_a_token_is_shown_once_and_works_until_it_is_revoked(admin, on_backend):
    given = {"name": "ci", "verbs": ["read", "register"], "instance": "prefill-a", "days": "7", "reason": "for CI"}
    asked = ask(admin, "make-token")
    assert '"expires_at": null' not in asked.text and "--expires 90d" in asked.text
    never = Shown(post(admin, "make-token", asked.fields, **{**given, "days": ""}, step="look"))
    assert '"expires_at": null' in never.text and "--expires never" in never.text
    answer = post(admin, "make-token", asked.fields, **given)
    made = Shown(answer)
    assert made.status == 200 and answer["HX-Trigger"] == "pdcp:refresh" and answer["Cache-Control"] == "no-store"
    text = re.search(r'id="act-token" tabindex="0">([^<]+)<', made.html)
    assert text is not None and "only time that it is shown" in made.text
    row = MachineToken.objects.get()
    found = tokens.who_has(text[1], source="", now=row.created.timestamp() + 1)
    assert found is not None and found.verbs == {"read", "register"} and found.instance == "prefill-a"
    assert 6.9 < (row.expiry - row.created).total_seconds() / 86_400 <= 7
    assert kept()[-1] == ("token.make", "ci", True, 200, "admin-ann", "page", "for CI")
    assert text[1] not in str(kept()) and text[1] not in str(latest(1)[0])

    shown = ask(admin, "revoke-token", row.token_key)
    assert "ci" in shown.text and "read, register" in shown.text and "?reason=" in shown.text
    assert "is revoked" in toast(post(admin, "revoke-token", shown.fields, reason="leaked"))["text"]
    assert tokens.who_has(text[1], source="", now=row.created.timestamp() + 1) is None
    assert Shown(post(admin, "revoke-token", shown.fields, reason="x")).status == 409
    assert Shown(post(admin, "make-token", {}, **{**given, "verbs": []})).status == 422
    assert Shown(post(admin, "make-token", {}, **{**given, "name": "a\x01"})).status in (400, 422)


def test_who_may_open_which_form(operator, viewer, admin, routed):
    gateways.join("gw-1")
    on = {"edit": "prefill-a", "edit-router": "east", "remove-router": "east", "remove-gateway": "gw-1"}
    people = {"viewer": viewer, "operator": operator, "admin": admin}
    for name, least in FORMS.items():
        if name == "revoke-token":
            continue
        for role, pages in people.items():
            allowed = list(people).index(role) >= list(people).index(least)
            assert ask(pages, name, *filter(None, [on.get(name)])).status == (200 if allowed else 403), (name, role)
        before = head()
        answer = post(viewer, name, {"on": on.get(name, ""), "name": "x", "reason": "x"})
        assert answer.status_code == 403 and head() == before
        assert kept()[-1][2:5] == (False, 403, "viewer-ann")


def test_what_does_not_exist_is_not_found(operator, admin, on_backend):
    for name in ("edit", "edit-router", "remove-router", "remove-gateway"):
        assert ask(operator, name, "ghost").status == 404
        assert ask(operator, name).status == 404
        assert post(operator, name, {"on": "<script>", "reason": "x"}).status_code == 404
    assert ask(admin, "revoke-token", "ghost").status == 404


def test_a_form_is_a_page_of_its_own_too(operator, on_backend):
    page = Shown(operator.client.get("/act/add"))
    assert page.status == 200 and "<html" in page.html and page.fields["back"] == ["/"]
    done = Shown(operator.client.post("/act/add", {"name": "a", "role": "decode", "reason": "x"}))
    assert done.status == 200 and "a was added as decode" in done.text
