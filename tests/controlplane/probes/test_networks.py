"""Who may be probed, and what is said of the others."""

from __future__ import annotations

import pytest

from controlplane.domain.addresses import bracketed, canonical_host, is_loopback, parse_ip, unusable
from controlplane.domain.errors import Refused
from controlplane.probes.networks import (
    LOOPBACK_FROM_AFAR,
    OUTSIDE_NETWORKS,
    PRIVATE,
    UNPROBED,
    ProbePolicy,
    parse_networks,
)
from controlplane.probes.sweep import is_local_address

POLICY = ProbePolicy(own_ports=frozenset({8998, 6789}), own_addresses=frozenset({"10.0.0.5"}))


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("10.0.1.10", "10.0.1.10"),
        ("::ffff:10.0.1.10", "10.0.1.10"),
        ("[::ffff:10.0.1.10]", "10.0.1.10"),
        ("::ffff:a00:10a", "10.0.1.10"),
        ("[FD00::0:1]", "fd00::1"),
        ("::1", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("203.0.113.7", "203.0.113.7"),
        ("Prefill-0.prefill.default.svc", "prefill-0.prefill.default.svc"),
        ("node_7", "node_7"),
        ("host.example.", "host.example."),
        ("localhost", "localhost"),
    ],
)
def test_NET_01_every_address_has_one_canonical_form(given, canonical):
    assert canonical_host(given) == canonical
    assert canonical_host(canonical) == canonical


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("", "host_missing"),
        ("None", "host_missing"),
        ("null", "host_missing"),
        ("[]", "host_missing"),
        ("0.0.0.0", "host_unusable"),
        ("0.1.2.3", "host_unusable"),
        ("::", "host_unusable"),
        ("::ffff:0.0.0.0", "host_unusable"),
        ("224.0.0.1", "host_unusable"),
        ("ff02::1", "host_unusable"),
        ("255.255.255.255", "host_unusable"),
        ("169.254.1.1", "host_unusable"),
        ("169.254.169.254", "host_unusable"),
        ("::ffff:169.254.169.254", "host_unusable"),
        ("64:ff9b::a9fe:a9fe", "host_unusable"),
        ("fd00:ec2::254", "host_unusable"),
        ("fe80::1", "host_unusable"),
        ("fe80::1%eth0", "host_malformed"),
        ("[10.0.0.1]", "host_malformed"),
        ("[host]", "host_malformed"),
        ("10.0.0.1:8998", "host_malformed"),
        ("http://host", "host_malformed"),
        ("a b", "host_malformed"),
        ("a\x00b", "host_malformed"),
        ("host\n", "host_malformed"),
        ("-host", "host_malformed"),
        ("a..b", "host_malformed"),
        (".", "host_malformed"),
        ("é.example", "host_malformed"),
        ("x" * 64, "host_malformed"),
        ("2130706433", "host_malformed"),
        ("0x7f000001", "host_malformed"),
        ("0x7f.1", "host_malformed"),
        ("127.1", "host_malformed"),
        ("10.0.0.256", "host_malformed"),
        ("010.0.0.1", "host_malformed"),
        ("x." * 127, "host_too_long"),
    ],
)
def test_an_address_that_no_rank_can_have_is_refused_with_a_sentence(given, code):
    with pytest.raises(Refused) as refused:
        canonical_host(given)
    assert refused.value.code == code
    assert "\x00" not in refused.value.sentence and "\n" not in refused.value.sentence
    assert len(refused.value.sentence) < 200


def test_metadata_services_outside_link_local_are_unusable_too():
    # AWS gives pods their credentials at fd00:ec2::23, in a range that is probed by default; Azure's agent has a public one.
    for host in ("100.100.100.200", "fd00:ec2::23", "fd00:ec2::254", "168.63.129.16"):
        assert unusable(parse_ip(host)) == "a metadata service"
    for host in ("100.100.100.201", "fd00:ec3::23", "168.63.129.17"):
        assert unusable(parse_ip(host)) is None


def test_an_ipv4_address_within_an_ipv6_one_hides_nothing():
    for host in ("64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "::a9fe:a9fe"):
        assert unusable(parse_ip(host)) == "a metadata service"
    for host in ("64:ff9b::a00:10a", "2002:a00:10a::1", "::1", "fd00::a9fe:a9fe"):
        assert unusable(parse_ip(host)) is None


def test_loopback_is_recognised_in_every_spelling():
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST."]))
    assert not any(map(is_loopback, ["10.0.0.1", "localhost.example", "fd00::1"]))


def test_only_ipv6_gets_brackets():
    assert [bracketed(host) for host in ("::1", "10.0.0.1", "host")] == ["[::1]", "10.0.0.1", "host"]


def test_networks_are_parsed_from_a_comma_list_and_none_means_none():
    assert parse_networks("none") == parse_networks("") == ()
    assert [str(network) for network in parse_networks(" 10.0.0.0/8,fd00::/8 ")] == ["10.0.0.0/8", "fd00::/8"]
    with pytest.raises(Refused, match=r"'10\.0\.0\.1/8' is not a network"):
        parse_networks("10.0.0.1/8")


def test_only_allowed_networks_are_probed():
    assert POLICY.may_probe("10.9.9.9", 4100, source_ip="10.9.9.9")
    assert not POLICY.may_probe("203.0.113.7", 4100, source_ip="10.9.9.9")
    assert POLICY.flags_for("203.0.113.7", "10.9.9.9") == (UNPROBED, OUTSIDE_NETWORKS)
    assert POLICY.flags_for("10.9.9.9", "10.9.9.9") == ()
    nothing = ProbePolicy(allowed=parse_networks("none"))
    assert not nothing.may_probe("127.0.0.1", 4100, source_ip="127.0.0.1")


def test_NET_03_a_loopback_address_is_probed_only_when_it_was_advertised_from_here():
    assert POLICY.may_probe("127.0.0.1", 4100, source_ip="127.0.0.1")
    assert POLICY.may_probe("::1", 4100, source_ip="127.0.0.1")
    assert not POLICY.may_probe("127.0.0.1", 4100, source_ip="10.0.1.10")
    assert not POLICY.may_probe("::ffff:127.0.0.1", 4100, source_ip="10.0.1.10")
    assert POLICY.flags_for("127.0.0.1", "10.0.1.10") == (UNPROBED, LOOPBACK_FROM_AFAR)
    assert POLICY.flags_for("localhost", "10.0.1.10") == (UNPROBED, LOOPBACK_FROM_AFAR)


def test_our_own_ports_are_never_probed_and_others_on_our_address_are():
    for ours in ("127.0.0.1", "::1", "10.0.0.5"):
        assert not POLICY.may_probe(ours, 8998, source_ip="127.0.0.1")
        assert not POLICY.may_probe(ours, 6789, source_ip="127.0.0.1")
        assert POLICY.may_probe(ours, 4100, source_ip="127.0.0.1")
    assert POLICY.may_probe("10.0.0.6", 8998, source_ip="127.0.0.1")


def test_an_address_of_this_host_is_ours_even_when_nobody_listed_it():
    wildcard = ProbePolicy(allowed=parse_networks(PRIVATE), own_ports=frozenset({8998}), is_own=is_local_address)
    assert is_local_address("127.0.0.1") and not is_local_address("203.0.113.7")
    assert not wildcard.may_probe("127.0.0.2", 8998, source_ip="127.0.0.1")
    assert wildcard.may_probe("10.255.255.254", 8998, source_ip="127.0.0.1")


def test_unusable_addresses_and_unresolved_names_are_never_probed():
    everywhere = ProbePolicy(allowed=parse_networks("0.0.0.0/0,::/0"))
    for host in ("169.254.169.254", "fd00:ec2::254", "0.0.0.0", "224.0.0.1", "rank.example"):
        assert not everywhere.may_probe(host, 80, source_ip="10.0.0.1")
    assert everywhere.may_probe("8.8.8.8", 80, source_ip="10.0.0.1")
