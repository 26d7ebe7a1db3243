"""Which advertised addresses may be probed, and what is remarkable about the others. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.domain.addresses import is_loopback, parse_ip, unusable
from controlplane.domain.errors import Refused

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Private ranges (RFC 1918, RFC 4193) and loopback: PDCP_PROBE_NETWORKS when nothing is set.
PRIVATE = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7,127.0.0.0/8,::1/128"

UNPROBED = "unprobed"
LOOPBACK_FROM_AFAR = "loopback-from-afar"
OUTSIDE_NETWORKS = "outside-networks"
FLAG_SENTENCES = {
    UNPROBED: "never probed: counts as present",
    LOOPBACK_FROM_AFAR: "a loopback address, advertised by another host: other hosts would reach themselves",
    OUTSIDE_NETWORKS: "outside PDCP_PROBE_NETWORKS",
}


def parse_networks(text: str) -> tuple[Network, ...]:
    """A comma list of CIDRs; `none` and the empty text are no network at all.

    >>> parse_networks("10.0.0.0/8, fd00::/8")
    (IPv4Network('10.0.0.0/8'), IPv6Network('fd00::/8'))
    """
    if text.strip().lower() in ("", "none"):
        return ()
    return tuple(_parse_network(entry.strip()) for entry in text.split(","))


def _parse_network(entry: str) -> Network:
    try:
        return ipaddress.ip_network(entry)
    except ValueError as why:
        raise Refused(f"{entry!a} is not a network in CIDR form: {why}", code="network_malformed") from why


def contains(networks: tuple[Network, ...], host: str) -> bool:
    """Whether an IP address lies in one of `networks`; a name lies in none."""
    address = parse_ip(host)
    return address is not None and any(
        address.version == network.version and address in network for network in networks
    )


@dataclass(frozen=True, slots=True)
class ProbePolicy:
    """Who may be probed: allowed networks, minus ourselves, minus what can only mislead.

    `own_ports` are all ports that this control plane listens on; together with an address of ours (loopback,
    `own_addresses`, or whatever `is_own` says) they are never probed: a probe must not reach our own door.
    """

    allowed: tuple[Network, ...] = field(default_factory=lambda: parse_networks(PRIVATE))
    own_ports: frozenset[int] = frozenset()
    own_addresses: frozenset[str] = frozenset()
    is_own: Callable[[str], bool] | None = None

    def may_probe(self, ip: str, port: int, *, source_ip: str) -> bool:
        return self.refusal(ip, port, source_ip=source_ip) is None

    def refusal(self, ip: str, port: int, *, source_ip: str) -> str | None:
        """Why `ip:port`, advertised by `source_ip`, is not probed, as a sentence; None when it may be.

        `ip` is an address: a name is resolved before anybody asks, or it could hide any of these.
        """
        address = parse_ip(ip)
        if address is None:
            return f"{ip!a} is not an IP address"
        why_not = unusable(address)
        if why_not:
            return f"{ip} is {why_not}"
        if address.is_loopback and self._is_afar(source_ip):
            return f"{ip} is {FLAG_SENTENCES[LOOPBACK_FROM_AFAR]}"
        if not contains(self.allowed, ip):
            return f"{ip} is {FLAG_SENTENCES[OUTSIDE_NETWORKS]}"
        if port in self.own_ports and self._is_ours(ip):
            return f"{ip} port {port} is this control plane itself"
        return None

    def flags_for(self, ip: str, source_ip: str) -> tuple[str, ...]:
        """What stands beside a registered address; the words are keys of FLAG_SENTENCES.

        A name has no flag but loopback's: where it leads is known only when it is resolved.
        """
        if is_loopback(ip) and self._is_afar(source_ip):
            return (UNPROBED, LOOPBACK_FROM_AFAR)
        if parse_ip(ip) is not None and not contains(self.allowed, ip):
            return (UNPROBED, OUTSIDE_NETWORKS)
        return ()

    def _is_afar(self, source_ip: str) -> bool:
        """Whether whoever speaks from there sits on another host. Our own address is loopback by another name."""
        return bool(source_ip) and not self._is_ours(source_ip)

    def _is_ours(self, ip: str) -> bool:
        return is_loopback(ip) or ip in self.own_addresses or bool(self.is_own and self.is_own(ip))
