"""Bytes as they are: a socket that sends what it is told, and reads answers one by one."""

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tests.wire.client import Answer


class HungUp(Exception):
    """The server closed the connection; `left` is what had come by then."""

    def __init__(self, left: bytes) -> None:
        super().__init__(f"closed after {left[:200]!r}")
        self.left = left


class Wire:
    """One connection."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", timeout: float = 30) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> "Wire":
        for part in parts:
            self.socket.sendall(part)
        return self

    def answer(self, *, head_only: bool = False) -> Answer:
        """The next whole answer, or HungUp. `head_only`: the answer to a HEAD."""
        while b"\r\n\r\n" not in self._unread:
            self._more()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        status, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.title(): value.strip() for name, _, value in (line.partition(":") for line in fields)}
        code = int(status.split(" ", 2)[1])
        length = 0 if head_only or code < 200 else int(headers.get("Content-Length", "0"))
        while len(self._unread) < length:
            self._more()
        body, self._unread = self._unread[:length], self._unread[length:]
        return Answer(code, headers.get("Content-Type"), body, headers)

    def is_closed(self) -> bool:
        """Waits until the server closes (or the timeout); nothing may come before that."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def _more(self) -> None:
        try:
            got = self.socket.recv(65536)
        except ConnectionResetError:
            got = b""
        if not got:
            raise HungUp(self._unread)
        self._unread += got


def request(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, Any] | None = None, version: str = "1.1"
) -> bytes:
    """Raw request bytes; a Host and the body's length are added unless given."""
    fields = {"Host": "x", **({"Content-Length": len(body)} if body else {}), **(headers or {})}
    lines = [f"{method} {path} HTTP/{version}", *(f"{k}: {v}" for k, v in fields.items() if v is not None), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def ask(port: int, data: bytes, *, timeout: float = 30) -> Answer:
    with Wire(port, timeout=timeout) as wire:
        return wire.send(data).answer()
