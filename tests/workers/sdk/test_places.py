"""Spellings of addresses, and which of them mean nothing."""

import pytest

from workers.sdk.errors import BadAddress
from workers.sdk.places import Place, check_published, is_fake, read_place, read_port, requested_place


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("[::1]:8998", "::1", 8998),
        ("::1", "::1", 8998),
        ("[::1]", "::1", 8998),
        ("localhost", "localhost", 8998),
        ("10.0.0.5", "10.0.0.5", 8998),
        ("10.0.0.5:1", "10.0.0.5", 1),
        ("FD00::0:1", "fd00::1", 8998),
        # All of it is an address: a port would need brackets.
        ("fd00::1:8998", "fd00::1:8998", 8998),
        ("[::ffff:10.0.1.10]:80", "10.0.1.10", 80),
        ("Node-7.rack:9000", "node-7.rack", 9000),
        (" http://cp.rack ", "cp.rack", 80),
        ("https://cp.rack", "cp.rack", 443),
        ("HTTP://[fd00::1]:7/i/prefill-a/", "fd00::1", 7),
        ("prefill-a:x@10.0.0.5:9", "10.0.0.5", 9),
    ],
)
def test_every_spelling_of_an_address_means_one_place(text, host, port):
    place = read_place(text)
    assert (place.host, place.port) == (host, port)


def test_a_place_is_written_as_urls_and_sockets_want_it():
    place = read_place("http://[fd00::1]:7/i/prefill-a/")
    assert place.url("/route") == "http://[fd00::1]:7/i/prefill-a/route"
    assert place.endpoint == "tcp://[fd00::1]:7"
    assert place.is_ipv6 and not place.is_loopback
    assert read_place("prefill-a:x@10.0.0.5").instance == "prefill-a"
    assert read_place(str(place)) == Place("fd00::1", 7)


@pytest.mark.parametrize("text", [None, "", "  ", "None", "null", "NONE"])
def test_a_missing_address_is_said_to_be_missing(text):
    with pytest.raises(BadAddress, match="bootstrap address is missing"):
        read_place(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ftp://a", "ftp://"),
        ("a:0", "between 1 and 65535"),
        ("a:70000", "between 1 and 65535"),
        ("a:", "port of the bootstrap address is missing"),
        ("a:x", "between 1 and 65535"),
        ("[::1", "brackets"),
        ("[::1]8998", "brackets"),
        ("[10.0.0.5]:80", "brackets around an IPv4"),
        ("0.0.0.0:80", "unspecified"),
        ("[::]:80", "unspecified"),
        ("169.254.169.254", "metadata"),
        ("a b", "neither an IP address nor a DNS name"),
        ("http://a/?x=1", "query"),
        ("2130706433", "not a complete IPv4 address"),
        ("x y:z@10.0.0.5", "instance name"),
        (5, "must be text"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text, why):
    with pytest.raises(BadAddress, match=why):
        read_place(text)


@pytest.mark.parametrize("port", [True, 0, 65536, -1, "0", "70000", "8998x", "", None, 1.5, [], "１２"])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(BadAddress):
        read_port(port)


def test_a_request_says_host_and_port_apart():
    assert requested_place("10.0.0.5", "8998") == Place("10.0.0.5", 8998)
    assert requested_place("[fd00::1]", 8998) == Place("fd00::1", 8998)
    assert requested_place("prefill-a:x@10.0.0.5", 8998).instance == "prefill-a"
    for host in ("10.0.0.5:8998", "[::1]:8998", "http://10.0.0.5", "10.0.0.5/i/a"):
        with pytest.raises(BadAddress, match="its port is said by bootstrap_port"):
            requested_place(host, 8998)


def test_the_fake_host_of_sglang_is_known():
    assert is_fake("2.2.2.2") and is_fake(" 2.2.2.2 ")
    assert not is_fake("2.2.2.3") and not is_fake(None)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "0.0.0.0", "::", "[::]", "127.8.8.8"])
def test_a_loopback_or_wildcard_host_is_not_published_and_the_right_one_is_named(host):
    with pytest.raises(BadAddress, match=r"10\.0\.1\.10 is an address of this host"):
        check_published(host, instead="10.0.1.10")


def test_other_hosts_are_published_in_one_form():
    assert check_published("[FD00::0:1]") == "fd00::1"
    assert check_published("10.0.1.10") == "10.0.1.10"
