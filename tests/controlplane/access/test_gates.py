"""Gates: what opens them, as one table; and where a token may stand."""

import ipaddress

import pytest

from controlplane.access.gates import By, Gate, gates
from controlplane.access.headers import token_in, token_in_raw
from controlplane.access.keyring import Key, Keyring
from controlplane.access.roles import Who
from controlplane.domain.errors import Refused

LAN = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
ALL = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
GOOD = Who("token:w", verbs=frozenset({"register"}), via="token")
THERE = Who("token:w", verbs=frozenset({"register"}), instance="a", via="token")
READER = Who("token:r", verbs=frozenset({"read"}), via="token")

# by, near?, shown: nothing, an unknown token, one for something else, one for another instance, the right one.
TABLE = [
    (By.NETWORK, True, ["in"] * 5),
    (By.NETWORK, False, ["forbidden"] * 5),
    (By.TOKEN, True, ["unauthenticated", "unauthenticated", "forbidden", "forbidden", "in"]),
    (By.TOKEN, False, ["unauthenticated", "unauthenticated", "forbidden", "forbidden", "in"]),
    (By.EITHER, True, ["in"] * 5),
    (By.EITHER, False, ["unauthenticated", "unauthenticated", "forbidden", "forbidden", "in"]),
    (By.BOTH, True, ["unauthenticated", "unauthenticated", "forbidden", "forbidden", "in"]),
    (By.BOTH, False, ["forbidden"] * 5),
]
SHOWN = [(None, None), ("x", None), ("r", READER), ("w", Who("token:w", verbs=GOOD.verbs, instance="b")), ("w", THERE)]


def outcome(gate: Gate, source: str, token: str | None, who: Who | None) -> str:
    try:
        if not gate.is_settled_by(source):
            gate.check_token(token, who, lambda: "a")
    except Refused as refused:
        assert refused.sentence
        return refused.code
    return "in"


@pytest.mark.parametrize(("by", "near", "expected"), TABLE)
def test_a_gate_opens_for_whom_it_is_meant(by, near, expected):
    gate = Gate("register here", "register", LAN, "NETWORKS", by, "BY")
    for source in (
        ("10.1.2.3", "fd00::1", "::ffff:10.1.2.3", "") if near else ("192.0.2.1", "::1", "host", "fe80::1%eth0")
    ):
        assert [outcome(gate, source, *shown) for shown in SHOWN] == expected, source
    assert not gate.open


def test_a_gate_that_is_open_to_everybody_looks_at_nothing():
    for by, opens in ((By.NETWORK, True), (By.EITHER, True), (By.TOKEN, False), (By.BOTH, False)):
        gate = Gate("register here", "register", ALL, "NETWORKS", by, "BY")
        assert gate.open is opens
    assert not Gate("register here", "register", ALL[:1], "NETWORKS").open


def test_as_settings_are_today_everything_is_open_and_no_token_is_wanted():
    ours = gates()
    assert ours.register.open and ours.read.open and ours.engine_info.open and not ours.want_tokens


def test_which_instance_is_meant_is_not_asked_for_whoever_is_unknown_or_may_everywhere():
    gate = Gate("register here", "register", LAN, "NETWORKS", By.TOKEN, "BY")

    def several() -> str:
        raise Refused("2 instances share this listener (a, b)", code="unavailable")

    with pytest.raises(Refused, match="a token is needed"):
        gate.check_token(None, None, several)
    gate.check_token("w", GOOD, several)
    with pytest.raises(Refused, match="2 instances"):
        gate.check_token("w", THERE, several)


@pytest.mark.parametrize(
    ("own", "authorization", "token"),
    [
        (None, None, None),
        (None, "Bearer t", "t"),
        (None, "bEaReR   t ", "t"),
        (None, "Token t", "t"),
        (None, "Bearer", None),
        (None, "Bearert", None),
        (None, "Basic dDp4", None),
        ("t", "Bearer another", "t"),
        ("", "Bearer t", "t"),
        (" ", None, None),
        ("é", None, "é"),
    ],
)
def test_where_a_token_may_stand(own, authorization, token):
    assert token_in(own, authorization) == token
    given = ((b"x-pd-token", own), (b"authorization", authorization))
    raw = {name: text.encode("latin-1") for name, text in given if text is not None}
    assert token_in_raw(raw) == token


def test_two_tokens_that_begin_alike_are_told_apart_and_a_key_ends_with_its_time():
    from knox.crypto import hash_token

    one, two = "pdcp_" + "0" * 64, "pdcp_" + "0" * 63 + "1"
    ring = Keyring(
        Key(token[:15], hash_token(token), name, frozenset(), expires_at=expires)
        for token, name, expires in ((one, "one", None), (two, "two", 100.0))
    )
    assert (ring.find(one, now=1e9).name, ring.find(two, now=99.9).name) == ("one", "two")
    assert ring.find(two, now=100.0) is None and len(ring) == 2
