"""Who may register at this relay: processes of this host, and of the networks it is attached to."""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import suppress
from pathlib import Path

from controlplane.domain.addresses import parse_ip
from controlplane.domain.errors import Refused
from workers.sdk import interfaces

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
PROC = Path("/proc")
PORT = 9
"""Any: nothing is sent."""

_UP, _GATEWAY = 0x1, 0x2


class Admission:
    """`networks` None: those of this host, read again when somebody comes from outside of what was read."""

    def __init__(self, networks: tuple[Network, ...] | None = None, *, proc: Path = PROC) -> None:
        self._fixed, self._proc = networks is not None, proc
        self.networks: tuple[Network, ...] = (*LOOPBACK, *(networks if networks is not None else attached(proc)))

    def check(self, source: str) -> None:
        """Raises Refused (forbidden)."""
        # Whose way leads from itself is this host; that something can be bound there is no proof (ip_nonlocal_bind).
        if self._contains(source) or (
            parse_ip(source.partition("%")[0]) and interfaces.on_the_way_to(source, PORT) == source
        ):
            return
        if not self._fixed:
            self.networks = (*LOOPBACK, *attached(self._proc))
            if self._contains(source):
                return
        raise Refused(
            f"{source} is not in the networks of this relay's host; --networks says which others may register here",
            code="forbidden",
        )

    def _contains(self, source: str) -> bool:
        address = parse_ip(source.partition("%")[0])
        return address is not None and any(
            address in network for network in self.networks if network.version == address.version
        )


def read_networks(text: str) -> tuple[Network, ...]:
    """A comma list of CIDRs.

    >>> read_networks("10.0.0.0/8, fd00::/8")
    (IPv4Network('10.0.0.0/8'), IPv6Network('fd00::/8'))
    """
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as problem:
        raise Refused(f"networks are CIDRs with commas between: {problem}") from None


def attached(proc: Path = PROC) -> tuple[Network, ...]:
    """The networks that this host reaches without a gateway, as its kernel has them. A default route is none of them."""
    return (*_ipv4(proc), *_ipv6(proc))


def _ipv4(proc: Path) -> list[Network]:
    found: list[Network] = []
    with suppress(OSError, ValueError):
        for line in (proc / "net/route").read_text().splitlines()[1:]:
            _, destination, gateway, flags, _, _, _, mask, *_ = line.split()
            if not int(flags, 16) & _UP or int(flags, 16) & _GATEWAY or int(gateway, 16) or not int(mask, 16):
                continue
            bits = int(mask, 16).bit_count()
            found.append(ipaddress.ip_network(f"{_dotted(destination)}/{bits}", strict=False))
    return found


def _ipv6(proc: Path) -> list[Network]:
    found: list[Network] = []
    with suppress(OSError, ValueError):
        for line in (proc / "net/if_inet6").read_text().splitlines():
            digits, _, bits, *_ = line.split()
            found.append(ipaddress.ip_network((bytes.fromhex(digits), int(bits, 16)), strict=False))
    return found


def _dotted(digits: str) -> str:
    return socket.inet_ntoa(int(digits, 16).to_bytes(4, sys.byteorder))
