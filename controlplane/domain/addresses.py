"""One canonical form for a rank's address, and the addresses that no rank can have."""

from __future__ import annotations

import ipaddress
import re

from controlplane.domain.errors import Refused

MAX_HOST_LENGTH = 253
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")

# Where clouds hand out credentials. Most are link-local; these are not: the range that AWS keeps for the services of a
# host (IMDS ::254, pod identity ::23), Google Cloud, Alibaba, Oracle, and Azure's host agent.
METADATA = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.169.254/32",
        "fd00:ec2::/32",
        "fd20:ce::254/128",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "168.63.129.16/32",
    )
)
THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
BROADCAST = ipaddress.ip_address("255.255.255.255")
# Prefixes whose last 32 bits are an IPv4 address, to which a gateway or the host itself takes what is sent there: NAT64
# (RFC 6052, RFC 8215) and IPv4-compatible addresses (RFC 4291).
WITH_IPV4 = tuple(ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96"))

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


def peer_host(text: str) -> str:
    """Where a peer speaks from, as ranks, networks and rows have it: a socket of both families shows IPv4 as mapped.

    >>> peer_host("::ffff:10.0.1.10"), peer_host("fd00::1"), peer_host("fe80::1%eth0")
    ('10.0.1.10', 'fd00::1', 'fe80::1%eth0')
    """
    address = parse_ip(text) if text.startswith("::ffff:") else None
    return text if address is None else str(address)


def unusable(address: IPAddress) -> str | None:
    """Why no rank can have this address, as the end of "it is …"; None when one can.

    >>> unusable(parse_ip("169.254.169.254")), unusable(parse_ip("10.0.0.1"))
    ('a metadata service', None)
    """
    if any(address.version == network.version and address in network for network in METADATA):
        return "a metadata service"
    if address.is_unspecified or address in THIS_NETWORK:
        return "an unspecified address"
    if address.is_multicast:
        return "a multicast address"
    if address == BROADCAST:
        return "the broadcast address"
    if address.is_link_local:
        return "a link-local address"
    within = _ipv4_within(address)
    return unusable(within) if within is not None else None


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


def _ipv4_within(address: IPAddress) -> ipaddress.IPv4Address | None:
    """The IPv4 address to which whatever is sent to this IPv6 address may go."""
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return None
    if any(address in network for network in WITH_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


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
