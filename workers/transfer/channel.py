"""Questions and answers between an engine's child process and its owner: MessagePack behind a length, over a socket pair.

Memory goes over as a file descriptor beside the length (SCM_RIGHTS). Nothing is pickled.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Sequence

import msgspec

from workers.transfer.blocks import MAX_BATCH

HEADER = struct.Struct("<I")
MAX_BYTES = 2**20
"""A batch of `MAX_BATCH` blocks has some 28 kB; error texts are short."""
assert MAX_BYTES > 3 * 9 * MAX_BATCH


class Ask(msgspec.Struct, array_like=True, frozen=True):
    """`what`: open, register, unregister, write, read. `numbers`: lengths or bases, or local, remote and length of each block."""

    number: int
    what: str
    text: str = ""
    numbers: list[int] = []
    timeout: float = 0.0


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """`error`: the name of an error class of `workers.transfer.errors`, empty when it went well."""

    number: int
    error: str = ""
    text: str = ""
    value: int = 0
    settled: bool = True


class Channel:
    """One end. `send` may be called from any thread, `receive` from one."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    def send(self, message: msgspec.Struct, fds: Sequence[int] = ()) -> None:
        """Raises OSError when the other end is gone or takes nothing for the socket's time-out."""
        body = msgspec.msgpack.encode(message)
        if len(body) > MAX_BYTES:
            raise ValueError(f"a message of {len(body)} bytes is longer than {MAX_BYTES}")
        with self._lock:
            socket.send_fds(self._end, [HEADER.pack(len(body))], fds)
            self._end.sendall(body)

    def receive(self) -> tuple[bytes, list[int]] | None:
        """The body of the next message and the descriptors beside it; None when the other end is closed."""
        head, fds, _, _ = socket.recv_fds(self._end, HEADER.size, 4)
        while head and len(head) < HEADER.size:
            more = self._end.recv(HEADER.size - len(head))
            head = head + more if more else b""
        body = self._body(HEADER.unpack(head)[0]) if head else None
        if body is None:
            for fd in fds:
                os.close(fd)
            return None
        return body, fds

    def close(self) -> None:
        self._end.close()

    def _body(self, length: int) -> bytes | None:
        if length > MAX_BYTES:
            raise ValueError(f"a message announces {length} bytes, more than {MAX_BYTES}")
        body = bytearray()
        while len(body) < length:
            chunk = self._end.recv(length - len(body))
            if not chunk:
                return None
            body += chunk
        return bytes(body)
