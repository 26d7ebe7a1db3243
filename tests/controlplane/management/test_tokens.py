"""`manage.py tokens`: made and shown once, listed without their text, revoked by their first characters."""

import time

import pytest
from django.contrib.auth.models import User

from controlplane.access import attempts, tokens
from controlplane.ledger.tail import latest


@pytest.fixture
def ann(alone) -> User:
    return User.objects.create_superuser("ann")


def test_a_token_is_made_shown_once_listed_and_revoked(alone, ann):
    code, made = alone.json("tokens", "make", "w", "--may", "register", "--may", "read", "--instance", "a")
    assert (code, made["state"], made["may"], made["instance"], made["made_by"]) == (
        0,
        "active",
        ["read", "register"],
        "a",
        "ann",
    )
    who = tokens.who_has(made["token"], source="", now=time.time())
    assert who and who.may("register", "a") and not who.may("register", "b")
    code, listed = alone.json("tokens", "list")
    assert code == 0 and [row["key"] for row in listed] == [made["key"]] and made["token"] not in str(listed)
    # Pasting all of it means the one that begins so, and repeats nothing.
    done = alone.run("tokens", "revoke", made["token"], "--reason", "lost", "--actor", "otto")
    assert (done.returncode, done.stdout) == (0, f"{made['key']}… is revoked.\n")
    assert (latest(1)[0].kind, latest(1)[0].actor, latest(1)[0].reason) == ("token.revoked", "otto", "lost")
    assert alone.json("tokens", "revoke", made["key"])[1]["changed"] is False
    assert alone.json("tokens", "list")[1][0]["state"] == "revoked"
    kept = [(row.actor, row.action, row.target, row.allowed) for row in attempts.listing()]
    assert kept[1] == ("otto", "token.revoke", made["key"], True) and kept[2][1:] == ("token.make", "w", True)
    assert made["token"] not in str(attempts.listing())


def test_as_text_the_token_stands_alone_on_stdout(alone, ann):
    done = alone.run("tokens", "make", "ci", "--may", "read", "--expires", "never")
    assert done.returncode == 0 and done.stdout.strip().startswith("pdcp_") and len(done.stdout.split()) == 1
    assert "only time" in done.stderr and done.stdout.strip() not in done.stderr
    assert "ci" in alone.run("tokens", "list").stdout


def test_the_first_token_of_a_new_control_plane_makes_its_first_administrator(alone):
    assert alone.run("tokens", "make", "w", "--may", "read").returncode == 0
    assert [(user.username, user.is_superuser) for user in User.objects.all()] == [("admin", True)]


def test_what_cannot_be_made_or_revoked_is_said_in_a_sentence(alone):
    assert alone.run("tokens", "list").returncode == 1
    # Somebody took that account's rights away; making a token does not give them back.
    admin = User.objects.create_user("admin")
    nobody = alone.run("tokens", "make", "w", "--may", "read")
    assert (nobody.returncode, "createsuperuser" in nobody.stderr) == (1, True)
    admin.delete()
    assert alone.run("tokens", "make", "w", "--may", "read", "--expires", "soon").returncode == 2
    assert alone.run("tokens", "make", "w", "--may", "read", "--user", "ghost").returncode == 1
    assert alone.run("tokens", "make", "w", "--may", "administer").returncode == 2
    assert alone.run("tokens", "revoke", "pdcp_0123456789").returncode == 1
    assert [row.allowed for row in attempts.listing()] == [False] * 4
