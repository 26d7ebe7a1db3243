"""Tokens in the database: shown once, kept as digests, and dead as soon as anything about them ends."""

import time

import pytest
from django.contrib.auth.models import User

from controlplane.access import tokens
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import head, latest
from controlplane.models.access import MachineToken
from controlplane.queries.events import sentence

HOUR = 3600.0


def make(user, *verbs, instance="", expires_at=None, now=None):
    return tokens.make("worker-7", verbs or ("register",), instance, expires_at, user, "for a test", now=now)


def who(token, now=None):
    return tokens.who_has(token, source="10.0.0.7", now=time.time() if now is None else now)


def test_a_token_says_who_has_it_and_only_its_digest_is_kept(ann):
    made, text = make(ann, "report", "register", instance="a")
    found = who(text)
    assert (found.name, found.verbs, found.instance) == ("token:worker-7", {"register", "report"}, "a")
    assert (found.via, found.source, found.key) == ("token", "10.0.0.7", text[:15])
    assert text not in str(list(MachineToken.objects.values())) and text.removeprefix("pdcp_")[10:] not in repr(found)
    event = latest(1)[0]
    assert (event.kind, event.instance, event.actor, event.reason) == ("token.made", "a", "ann", "for a test")
    assert event.data == {
        "token": made.token_key,
        "name": "worker-7",
        "verbs": ["register", "report"],
        "token_instance": "a",
        "expires": None,
    }
    assert sentence(event) == f"token worker-7 ({text[:15]}…) was made: it may register, report on a, for ever"


def test_it_is_dead_when_it_expires_is_revoked_or_its_maker_is_not_active(ann):
    # A database keeps microseconds.
    now = float(int(time.time()))
    _, short = make(ann, expires_at=now + HOUR)
    assert who(short, now + HOUR - 1) and who(short, now + HOUR) is None
    _, text = make(ann)
    assert tokens.revoke(text[:15], "otto", "lost") and who(text) is None
    assert not tokens.revoke(text[:15], "otto", "lost")
    told = latest(1)[0]
    assert (told.kind, told.actor, sentence(told)) == (
        "token.revoked",
        "otto",
        f"token worker-7 ({text[:15]}…) was revoked",
    )
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert who(short, now) is None
    assert {row.state for row in tokens.listing(now=now)} == {"orphaned", "revoked"}
    User.objects.filter(pk=ann.pk).update(is_active=True)
    assert who(short, now)
    ann.delete()
    assert who(short, now) is None


def test_last_use_is_written_down_once_a_minute(ann):
    _, text = make(ann)
    now = time.time()
    for at, written in ((now, now), (now + 30, now), (now + 59, now), (now + 61, now + 61)):
        assert who(text, at)
        assert tokens.listing()[0].last_used_at == pytest.approx(written, abs=0.001)


NONSENSE = [
    "",
    "pdcp_",
    "pdcp_" + "0" * 64,
    "PDCP_" + "0" * 64,
    "pdcp_" + "g" * 64,
    "pdcp_" + "0" * 64 + "\n",
    "pdcp_\x00" + "0" * 63,
    "\ud800" * 69,
    "pdcp_" + "٠" * 64,
    "x" * 1_000_000,
]


def test_what_is_no_token_of_ours_is_nobody(ann):
    _, text = make(ann)
    assert [shown for shown in NONSENSE if who(shown)] == []
    assert who(text[:-1] + ("0" if text[-1] != "0" else "1")) is None
    assert who(text)


REFUSED = [
    ({"name": " "}, "name is missing"),
    ({"name": "a\nb"}, "control characters"),
    ({"name": "x" * 101}, "at most 100"),
    ({"verbs": ()}, "at least one"),
    ({"verbs": ("administer",)}, "not 'administer'"),
    ({"instance": "../x"}, "an instance name"),
    ({"expires_at": 1.0}, "in the future"),
    ({"expires_at": float("nan")}, "in the future"),
    ({"expires_at": 1e18}, "in the future"),
    ({"reason": "a\x00b"}, "control characters"),
]


def test_what_cannot_be_made_is_refused_and_nothing_is_stored(ann):
    before = head()
    right = {"name": "w", "verbs": ("read",), "instance": "", "expires_at": None, "user": ann, "reason": ""}
    for wrong, why in REFUSED:
        with pytest.raises(Refused, match=why):
            tokens.make(**{**right, **wrong})
    assert head() == before and not MachineToken.objects.exists()


def test_an_unknown_key_cannot_be_revoked(ann):
    for key in ("pdcp_0123456789", "x"):
        with pytest.raises(Refused, match="no token begins with"):
            tokens.revoke(key, "ann")
    with pytest.raises(Refused, match="control characters"):
        tokens.revoke("a\x00", "ann")
