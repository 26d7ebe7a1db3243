"""Does a transfer-engine session live? Mooncake's own probe message, with a bound of ours.

Its library blocks for a minute at a peer that hangs, and holds a lock of the whole engine meanwhile. The message is 8 bytes of
length (little-endian), one byte of type (3: probe) and JSON; a peer that lives answers in the same form with a status.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

import msgspec

from controlplane.domain.contact import Contact

from .networks import ProbePolicy

TIMEOUT_SECONDS = 2.0
FAREWELL_SECONDS = 0.25
PROBE = 3
MOST_BYTES = 4096
HEAD = struct.Struct("<Q")
QUESTION = HEAD.pack(3) + bytes([PROBE]) + b"{}"


async def probe(host: str, port: int, *, timeout: float = TIMEOUT_SECONDS) -> Contact:
    """UP when it answers that it is well, SILENT when it takes the connection and does not answer (it hangs, or is too old to
    know the message), STRANGER when it answers something else, REFUSED on a reset of the connect, UNREACHED otherwise.

    `timeout` (seconds) bounds all of it.
    """
    deadline = asyncio.get_running_loop().time() + timeout
    try:
        async with asyncio.timeout_at(deadline):
            reader, writer = await asyncio.open_connection(host, port, limit=MOST_BYTES)
    except ConnectionRefusedError:
        return Contact.REFUSED
    except (OSError, TimeoutError):
        return Contact.UNREACHED
    try:
        async with asyncio.timeout_at(deadline):
            writer.write(QUESTION)
            contact = await _answer(reader)
        if contact is Contact.UP:
            await _farewell(reader)
        return contact
    except asyncio.IncompleteReadError as cut:
        # Hung up in the middle of an answer is an answer of another program; before it, of one that does not know us.
        return Contact.STRANGER if cut.partial else Contact.SILENT
    except (OSError, TimeoutError):
        return Contact.SILENT
    finally:
        _hang_up(writer, reset=not reader.at_eof())


async def _farewell(reader: asyncio.StreamReader) -> None:
    """An engine hangs up first, and then waits for us: a reset now would be an error in its log, every second."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            await reader.read(1)


def _hang_up(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    """Without waiting in the kernel: thousands of these are opened a minute. Whoever hung up first keeps the socket."""
    ours = writer.get_extra_info("socket")
    if reset and ours is not None:
        with contextlib.suppress(OSError):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


async def _answer(reader: asyncio.StreamReader) -> Contact:
    (length,) = HEAD.unpack(await reader.readexactly(HEAD.size))
    if not 1 <= length <= MOST_BYTES:
        return Contact.STRANGER
    body = await reader.readexactly(length)
    try:
        said = msgspec.json.decode(body[1:])
    except (msgspec.MsgspecError, RecursionError):
        return Contact.STRANGER
    well = body[0] == PROBE and isinstance(said, dict) and said.get("status") == "success"
    return Contact.UP if well else Contact.STRANGER


def may_ask(policy: ProbePolicy, session: str, *, source: str = "") -> bool:
    """Whether probes may ask a session that was published from the address `source`, if that is known."""
    where = split_session(session)
    return where is not None and policy.may_probe(*where, source_ip=source)


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
