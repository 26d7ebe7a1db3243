"""One canonical form for a rank's address, and the addresses that no rank can have."""

from __future__ import annotations

import ipaddress
import re

from controlplane.domain.errors import Refused

MAX_HOST_LENGTH = 253
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")

# Where clouds hand out credentials. Most are link-local; these are not.
METADATA = {
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192")
}
THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
BROADCAST = ipaddress.ip_address("255.255.255.255")
NAT64 = ipaddress.ip_network("64:ff9b::/96")

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def canonical_host(text: str) -> str:
    """The one form in which an address is stored, compared and returned: no brackets.

    >>> canonical_host("[::ffff:10.0.1.10]"), canonical_host("FD00::0:1"), canonical_host("Node-7.rack")
    ('10.0.1.10', 'fd00::1', 'node-7.rack')

    Raises Refused for what cannot be connected to: empty text, `None` (SGLang's text for a missing
    host), malformed names, and the addresses of `unusable()`.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if bare.lower() in ("", "none", "null"):
        raise Refused("the host is missing", code="host_missing")
    address = parse_ip(bare)
    if address is None:
        if bare is not text:
            raise Refused(f"{_shown(text)} is not an IPv6 address in brackets", code="host_malformed")
        return _canonical_name(bare)
    if bare is not text and ":" not in bare:
        raise Refused(f"{_shown(text)} has brackets around an IPv4 address", code="host_malformed")
    why_not = unusable(address)
    if why_not:
        raise Refused(f"{bare} is {why_not}; no rank can be reached there", code="host_unusable")
    return str(address)


def parse_ip(text: str) -> IPAddress | None:
    """The address in `text`, IPv4-mapped IPv6 unwrapped; None for a name or for nonsense.

    >>> parse_ip("::ffff:127.0.0.1"), parse_ip("localhost")
    (IPv4Address('127.0.0.1'), None)
    """
    # A zone ("%eth0") means something on one host only, so it is no address to hand to another.
    if "%" in text or len(text) > 45:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def unusable(address: IPAddress) -> str | None:
    """Why no rank can have this address, as the end of "it is …"; None when one can.

    >>> unusable(parse_ip("169.254.169.254")), unusable(parse_ip("10.0.0.1"))
    ('a metadata service', None)
    """
    # Through a NAT64 gateway an IPv6 literal reaches the IPv4 address in its last 32 bits.
    if isinstance(address, ipaddress.IPv6Address) and address in NAT64:
        return unusable(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address in METADATA:
        return "a metadata service"
    if address.is_unspecified or address in THIS_NETWORK:
        return "an unspecified address"
    if address.is_multicast:
        return "a multicast address"
    if address == BROADCAST:
        return "the broadcast address"
    if address.is_link_local:
        return "a link-local address"
    return None


def is_loopback(text: str) -> bool:
    """Whether `text` is an address that means "this host" wherever it is read."""
    address = parse_ip(text)
    return address.is_loopback if address else text.rstrip(".").lower() == "localhost"


def bracketed(host: str) -> str:
    """The host as a URL or a ZeroMQ endpoint wants it: brackets around IPv6.

    >>> bracketed("fd00::1") + ":8998"
    '[fd00::1]:8998'
    """
    return f"[{host}]" if ":" in host else host


def _canonical_name(name: str) -> str:
    labels = name.removesuffix(".").split(".")
    if len(name) > MAX_HOST_LENGTH:
        raise Refused(
            f"the host has {len(name)} characters; a DNS name has at most {MAX_HOST_LENGTH}",
            code="host_too_long",
        )
    if not all(LABEL.fullmatch(label) for label in labels):
        raise Refused(f"{_shown(name)} is neither an IP address nor a DNS name", code="host_malformed")
    # Resolvers read "2130706433", "0x7f.1" and "127.1" as 127.0.0.1. No name ends in a number.
    if NUMBER.fullmatch(labels[-1]):
        raise Refused(f"{_shown(name)} is not a complete IPv4 address", code="host_malformed")
    return name.lower()


def _shown(text: str) -> str:
    """Worker input as it may stand in a sentence: escaped and short."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")
