"""The socket behind a rank's address: a ZeroMQ PULL, opened as SGLang opens it."""

from __future__ import annotations

import contextlib
import socket
from typing import Protocol

import zmq

from controlplane.domain.addresses import bracketed, parse_ip
from controlplane.domain.errors import Refused

FIRST_UNBOUND_PORT = 40_000


class Listener(Protocol):
    """What stands behind an address until it is closed."""

    port: int

    def close(self) -> None: ...


class Doors:
    """Opens listeners on one host; they share one ZeroMQ context, closed at the end."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # The default of 1,023 sockets is less than one large instance.
        self._context.set(zmq.MAX_SOCKETS, 16_384)

    def open(self) -> Listener:
        """A listening rank on a port that the kernel picks. Refused when the host is not ours."""
        return _Pull(self._context, self.host)

    def close(self) -> None:
        self._context.destroy(linger=0)


class _Pull:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], host: str) -> None:
        self._socket = context.socket(zmq.PULL)
        if ":" in host:
            self._socket.setsockopt(zmq.IPV6, 1)
        try:
            self.port = self._socket.bind_to_random_port(f"tcp://{bracketed(host)}")
        except zmq.ZMQError as failure:
            self._socket.close(linger=0)
            sentence = f"cannot listen on {host}: {failure.strerror}; --no-listen registers without listening"
            raise Refused(sentence, code="cannot_listen") from failure

    def close(self) -> None:
        self._socket.close(linger=0)


class Nobody:
    """An address with nobody behind it: a port that was free a moment ago, or just a number elsewhere."""

    _next = FIRST_UNBOUND_PORT

    def __init__(self, host: str) -> None:
        self.port = self._free_port(host)

    def close(self) -> None:
        """There is nothing to close."""

    @classmethod
    def _free_port(cls, host: str) -> int:
        if parse_ip(host):
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe,
            ):
                probe.bind((host, 0))
                return int(probe.getsockname()[1])
        cls._next = FIRST_UNBOUND_PORT + (cls._next + 1 - FIRST_UNBOUND_PORT) % 25_000
        return cls._next
