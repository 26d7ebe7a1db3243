"""Who may register at a relay: this host, and the networks it is attached to; a default route is none of them."""

from __future__ import annotations

import ipaddress

import pytest

from controlplane.domain.errors import Refused
from workers.relay.networks import Admission, attached, read_networks
from workers.sdk import interfaces

ROUTES = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 0101000A 0003 0 0 0 00000000 0 0 0
eth0 0001000A 00000000 0001 0 0 0 00FFFFFF 0 0 0
eth0 0002000A 0101000A 0003 0 0 0 00FFFFFF 0 0 0
"""
IPV6 = "fd000000000000010000000000000005 02 40 00 80 eth0\n00000000000000000000000000000001 01 80 10 80 lo\n"


def host(tmp_path, routes: str = ROUTES, ipv6: str = IPV6):
    (tmp_path / "net").mkdir(exist_ok=True)
    (tmp_path / "net/route").write_text(routes)
    (tmp_path / "net/if_inet6").write_text(ipv6)
    return tmp_path


def test_the_networks_of_a_host_are_those_it_reaches_without_a_gateway(tmp_path):
    found = set(attached(host(tmp_path)))
    assert {ipaddress.ip_network("10.0.1.0/24"), ipaddress.ip_network("fd00:0:0:1::/64")} <= found
    assert ipaddress.ip_network("10.0.2.0/24") not in found and not any(net.prefixlen == 0 for net in found)
    assert attached(tmp_path / "nowhere") == ()


def test_who_comes_from_there_may_register_and_nobody_else(tmp_path):
    admission = Admission(proc=host(tmp_path))
    for source in ("127.0.0.1", "::1", "10.0.1.77", "fd00:0:0:1::9", "::ffff:10.0.1.7"):
        admission.check(source)
    for source in ("10.0.2.1", "8.8.8.8", "fd00::1", "nonsense"):
        with pytest.raises(Refused, match="--networks says which others") as refused:
            admission.check(source)
        assert refused.value.code == "forbidden"


def test_an_interface_that_came_up_later_counts_unless_networks_were_given(tmp_path):
    proc = host(tmp_path, ROUTES.partition("eth0 0001")[0], "")
    found, fixed = Admission(proc=proc), Admission(read_networks("10.9.0.0/16"), proc=proc)
    with pytest.raises(Refused):
        found.check("10.0.1.7")
    host(tmp_path)
    found.check("10.0.1.7")
    fixed.check("10.9.1.1")
    with pytest.raises(Refused):
        fixed.check("10.0.1.7")


def test_this_host_is_known_by_the_way_to_its_address_and_not_by_what_may_be_bound(monkeypatch):
    """Where net.ipv4.ip_nonlocal_bind is on, everybody's address may be."""
    admission = Admission(())
    monkeypatch.setattr(interfaces, "is_local", lambda address: True)
    own = interfaces.on_the_way_to("192.0.2.1", 9)
    for source in ("127.0.0.1", own or "127.0.0.1"):
        admission.check(source)
    for source in ("192.0.2.1", "2001:db8::1"):
        with pytest.raises(Refused):
            admission.check(source)


def test_networks_are_cidrs():
    assert read_networks("") == ()
    with pytest.raises(Refused, match="networks are CIDRs"):
        read_networks("10.0.0.1/8")
