"""Whether a rank is there: connect, and exchange the 64 bytes with which ZMTP begins (RFC 23). Nothing is sent to it.

A bound PULL socket of libzmq answers by itself, so this proves the process, not its scheduler. The control plane's prober asks
in the same way; this is for workers that must decide before they send.
"""

from __future__ import annotations

import errno
import socket
import struct
import time

from controlplane.domain.contact import Contact
from workers.messaging.endpoint import Endpoint

SIGNATURE_LENGTH = 10
GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\x00") + bytes(32)
LEAST_VERSION = 3
REFUSALS = {errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED}
# Closing sends RST, so that no pair stays in TIME_WAIT.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def greet(to: Endpoint, *, timeout: float = 2.0) -> Contact:
    """What answers there within `timeout` seconds; never raises for what the network does."""
    deadline = time.monotonic() + timeout
    try:
        peer = socket.create_connection((to.host, to.port), timeout)
    except OSError as failure:
        return Contact.REFUSED if failure.errno in REFUSALS else Contact.UNREACHED
    with peer:
        try:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            # A connect to a closed port of the ephemeral range can meet itself.
            if peer.getsockname()[:2] == peer.getpeername()[:2]:
                return Contact.REFUSED
            return _exchange(peer, deadline)
        except OSError:
            return Contact.SILENT


def _exchange(peer: socket.socket, deadline: float) -> Contact:
    peer.sendall(GREETING)
    heard = b""
    while len(heard) <= SIGNATURE_LENGTH:
        peer.settimeout(max(0.001, deadline - time.monotonic()))
        chunk = peer.recv(64)
        if not chunk:
            return Contact.SILENT if not heard else Contact.STRANGER
        heard += chunk
        if heard[:1] != b"\xff" or (len(heard) >= SIGNATURE_LENGTH and not heard[SIGNATURE_LENGTH - 1] & 1):
            return Contact.STRANGER
    return Contact.UP if heard[SIGNATURE_LENGTH] >= LEAST_VERSION else Contact.STRANGER
