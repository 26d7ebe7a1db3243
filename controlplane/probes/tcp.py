"""Is anybody there at all? A connect and nothing more, for peers that speak no ZMTP (transfer-engine sessions)."""

from __future__ import annotations

import asyncio
import socket
import struct

from controlplane.domain.contact import Contact


async def connect(host: str, port: int, *, timeout: float) -> Contact:
    """UP when the connect is accepted, REFUSED on a reset, UNREACHED otherwise. Sends nothing. `timeout` in seconds."""
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return Contact.REFUSED
    except (OSError, TimeoutError):
        return Contact.UNREACHED
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
    return Contact.UP


def split_session(session: str) -> tuple[str, int] | None:
    """`ip:port` or `[ip]:port` of a session id; None when it is not one.

    >>> split_session("[::1]:17001"), split_session("node-7")
    (('::1', 17001), None)
    """
    host, colon, port = session.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        return None
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    return (host, int(port)) if host and ":" not in host else None
