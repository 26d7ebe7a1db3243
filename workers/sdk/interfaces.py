"""What the kernel says about this host's own addresses: no packet is sent, no name is looked up, nobody is asked."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from pathlib import Path

_IF_INET6 = Path("/proc/net/if_inet6")
_SIOCGIFADDR = 0x8915


def of_interface(name: str) -> list[str]:
    """The addresses of one network interface (Linux), IPv4 first, no link-local ones. Empty: none, or no such interface."""
    return [*_ipv4_of(name), *_ipv6_of(name)]


def interface_names() -> list[str]:
    """The interfaces there are, for a sentence that helps."""
    with suppress(OSError):
        return [name for _, name in socket.if_nameindex()]
    return []


def is_local(address: str) -> bool:
    """Whether this host has `address`: whether something could listen on it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.bind((address, 0))
    except OSError:
        return False
    return True


def on_the_way_to(address: str, port: int) -> str | None:
    """The address this host would send from, to `address`: what connecting a UDP socket picks, without a packet.

    None when there is no route.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((address, port))
            return str(asking.getsockname()[0])
    except OSError:
        return None


def _ipv4_of(name: str) -> list[str]:
    try:
        import fcntl
    except ImportError:
        return []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return []
    return [socket.inet_ntoa(answer[20:24])]


def _ipv6_of(name: str) -> list[str]:
    if not _IF_INET6.exists():
        return []
    found = []
    for line in _IF_INET6.read_text().splitlines():
        digits, _, _, scope, _, interface = line.split()
        # Scope 0x20 is link-local: it means nothing on another host.
        if interface == name and int(scope, 16) != 0x20:
            found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return found
