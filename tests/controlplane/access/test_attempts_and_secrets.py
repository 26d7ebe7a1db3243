"""What is kept of attempts, however odd; and keys of others, sealed."""

from django.db import transaction
from django.test import override_settings

from controlplane import env
from controlplane.access import attempts, secrets
from controlplane.access.roles import Role, Who
from controlplane.databases import FACTS
from controlplane.floodgate import FloodGate
from controlplane.models.access import Attempt

ANN = Who("ann", Role.ADMIN, source="10.0.0.9")


def test_an_attempt_is_kept_whole_and_can_be_read_a_page_at_a_time(on_backend):
    for number in range(5):
        attempts.note(
            ANN, "drain", f"p{number}", allowed=True, status=202, reason="heat", outcome="began", request_id="r1"
        )
    newest, second = attempts.listing(limit=2)
    assert (newest.actor, newest.via, newest.source, newest.action, newest.target) == (
        "ann",
        "session",
        "10.0.0.9",
        "drain",
        "p4",
    )
    assert (newest.allowed, newest.status, newest.reason, newest.outcome, newest.request_id) == (
        True,
        202,
        "heat",
        "began",
        "r1",
    )
    assert [row.target for row in attempts.listing(before=second.id)] == ["p2", "p1", "p0"]
    assert attempts.listing(actor="otto") == [] and len(attempts.listing(action="drain", allowed=True)) == 5
    assert attempts.delete_old(now=newest.at + 10, kept_seconds=5) == 5


def test_nothing_that_is_noted_makes_it_fail(on_backend):
    odd = ("x" * 100_000, "a\x00b", "\ud800", "\u202e\n\x1b[2J", "")
    for text in odd:
        who = Who(text, source=text, via="token")
        with transaction.atomic(using=FACTS):
            attempts.note(who, text, text, allowed=True, status=10**9, reason=text, outcome=text, request_id=text)
            attempts.note(who, text, text, allowed=True, status=object(), reason=text)  # type: ignore[arg-type]
    assert Attempt.objects.count() == len(odd)
    assert all(row.actor and len(row.reason) <= 2000 and len(row.source) <= 64 for row in Attempt.objects.all())


def test_the_refusals_of_one_source_are_kept_up_to_a_bound_and_the_rest_is_counted(on_backend, monkeypatch):
    monkeypatch.setattr(attempts, "_gate", FloodGate(per_source=60, per_kind=600, window_seconds=60.0))
    source = Who("", source="203.0.113.5")
    for _ in range(100):
        attempts.note(source, "sign-in", "x", allowed=False, status=401)
    assert Attempt.objects.count() == 60
    attempts.note(ANN, "sign-in", "x", allowed=True, status=302)
    assert Attempt.objects.count() == 61


def test_what_was_sealed_is_opened_by_the_same_key_or_a_former_one_and_no_other():
    sealed = secrets.seal("sk-ünïcode")
    assert "sk-" not in sealed and secrets.unseal(sealed) == "sk-ünïcode"
    assert secrets.seal("sk") != secrets.seal("sk")
    assert (secrets.seal(""), secrets.unseal("")) == ("", "")
    from django.conf import settings

    with override_settings(SECRET_KEY="another", SECRET_KEY_FALLBACKS=[settings.SECRET_KEY]):
        assert secrets.unseal(sealed) == "sk-ünïcode"
    with override_settings(SECRET_KEY="another"):
        assert secrets.unseal(sealed) is None
    for damaged in (sealed[:-4], "x", "\ud800", "é", "a\x00"):
        assert secrets.unseal(damaged) is None


def test_former_keys_can_be_given_in_the_environment():
    assert "SECRET_KEY_FALLBACKS" in env.known
