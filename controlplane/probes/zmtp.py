"""Ask one address whether a ZeroMQ peer is there: TCP connect, then the ZMTP 3 greeting.

RFC 23 (ZMTP 3.1): both sides send 64 bytes, signature `FF 00×8 7F`, version, mechanism. A bound SGLang rank
(libzmq 4 PULL) sends the signature at once and the version as soon as it has read ours.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct

from controlplane.domain.addresses import parse_ip
from controlplane.domain.contact import Contact, combine
from controlplane.probes.names import resolve

SIGNATURE_LENGTH = 10
VERSION_AT = SIGNATURE_LENGTH
GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\x00") + bytes(32)
LEAST_VERSION = 3

RESET_AT_CONNECT = {errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED}
# Closing sends RST: neither side keeps the pair in TIME_WAIT, however often we ask.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def greet(host: str, port: int, *, timeout: float) -> Contact:
    """What answers at `host:port` within `timeout` seconds; never raises for what the network does.

    A name is resolved first and all of its addresses are asked (see `combine`).
    """
    deadline = asyncio.get_running_loop().time() + timeout
    if parse_ip(host):
        return await greet_address(host, port, deadline=deadline)
    try:
        async with asyncio.timeout_at(deadline):
            addresses = await resolve(host)
    except (OSError, TimeoutError):
        return Contact.UNREACHED
    asked = (greet_address(address, port, deadline=deadline) for address in addresses)
    return combine(await asyncio.gather(*asked))


async def greet_address(address: str, port: int, *, deadline: float) -> Contact:
    """As `greet`, for one IP address and until a moment of the loop's clock."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    loop = asyncio.get_running_loop()
    try:
        peer = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # this host has no IPv6, or no descriptor left
        return Contact.UNREACHED
    try:
        peer.setblocking(False)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        try:
            async with asyncio.timeout_at(deadline):
                await loop.sock_connect(peer, (address, port))
        except OSError as failure:  # TimeoutError is one of them
            return Contact.REFUSED if failure.errno in RESET_AT_CONNECT else Contact.UNREACHED
        # A connect to a closed port of the ephemeral range can meet itself (TCP simultaneous open),
        # and would then read its own greeting back.
        if peer.getsockname()[:2] == peer.getpeername()[:2]:
            return Contact.REFUSED
        try:
            async with asyncio.timeout_at(deadline):
                return await _exchange(loop, peer)
        except OSError:
            return Contact.SILENT
    except OSError:
        return Contact.SILENT
    finally:
        peer.close()


async def _exchange(loop: asyncio.AbstractEventLoop, peer: socket.socket) -> Contact:
    await loop.sock_sendall(peer, GREETING)
    heard = b""
    while len(heard) <= VERSION_AT:
        chunk = await loop.sock_recv(peer, 64)
        if not chunk:
            return Contact.SILENT
        heard += chunk
        if not _can_be_zmtp(heard):
            return Contact.STRANGER
    return Contact.UP


def _can_be_zmtp(heard: bytes) -> bool:
    """Whether a ZMTP 3 peer may have begun like this.

    >>> _can_be_zmtp(b"\\xff"), _can_be_zmtp(b"HTTP/1.1 400 Bad Request")
    (True, False)
    """
    if heard[0] != 0xFF:
        return False
    if len(heard) >= SIGNATURE_LENGTH and heard[SIGNATURE_LENGTH - 1] != 0x7F:
        return False
    return len(heard) <= VERSION_AT or heard[VERSION_AT] >= LEAST_VERSION
