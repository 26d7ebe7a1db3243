"""The Tokens page: administrators see them all, nobody sees their text, others are told whom to ask."""

import time

from django.contrib.auth.models import User

from controlplane.access import tokens
from tests.dashboard.conftest import queries

SCRIPT = "<script>alert(1)</script>"


def made(name: str, verbs=("register",), instance: str = "", expires_at: float | None = None):
    return tokens.make(name, verbs, instance, expires_at, User.objects.get(username="admin-ann"), now=time.time())


def test_an_administrator_sees_who_may_do_what_and_never_the_text(admin):
    token, text = made("prefill-a-workers", ("register", "engine-info"), "prefill-a", time.time() + 7200)
    said = admin.text("/tokens/")
    assert f"prefill-a-workers {token.token_key}… active register, engine-info prefill-a never" in said
    assert "by admin-ann" in said and "Revoke" in said and "Make token" in said
    assert text not in admin.get("/tokens/")


def test_it_is_narrowed_by_state_and_words_and_says_how_many_there_are(admin):
    made("gw-1", ("gateway",))
    ended, _ = made("old", ("read",))
    tokens.revoke(ended.token_key, "admin-ann")
    assert "gw-1" in admin.text("/tokens/") and "old" not in admin.text("/tokens/", parts="tokens")
    said = admin.text("/tokens/?state=revoked")
    assert "ago by admin-ann" in said and "active 1" in said and "revoked 1" in said and "all 2" in said
    assert "No active token matches" in admin.text("/tokens/?q=nothing")
    assert "Tokens are active" in admin.text("/tokens/?state=odd", status=400)


def test_names_are_shown_as_text(admin):
    made(SCRIPT)
    assert SCRIPT not in admin.get("/tokens/") and SCRIPT in admin.text("/tokens/")


def test_others_are_told_whom_to_ask(viewer, operator):
    for somebody in (viewer, operator):
        said = somebody.text("/tokens/")
        assert "Ask an administrator for a token" in said
        assert "this needs the role admin" in said
    assert "made and revoked by them" in viewer.text("/tokens/", parts="tokens")


def test_without_tokens_the_page_teaches_the_command(admin):
    assert "manage.py tokens make" in admin.text("/tokens/")


def test_a_long_list_is_cut_and_says_so_with_the_same_queries(admin, monkeypatch):
    monkeypatch.setattr("dashboard.views.tokens.SHOWN", 3)
    made("first")
    with queries() as few:
        admin.get("/tokens/")
    for number in range(5):
        made(f"more-{number}")
    with queries() as many:
        said = admin.text("/tokens/")
    assert len(few) == len(many)
    assert "The newest 3 are shown, 3 more are not" in said
