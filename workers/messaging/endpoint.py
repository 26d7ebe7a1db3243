"""Where a rank takes messages: a host and a port, in one spelling, for IPv4, IPv6 and names alike."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.addresses import bracketed, canonical_host
from controlplane.domain.errors import Refused

MAX_PORT = 65535


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """A canonical host without brackets, and a port from 1 to 65535. Make it with `at` or `parse`."""

    host: str
    port: int

    @classmethod
    def at(cls, host: str, port: int) -> Endpoint:
        """
        >>> Endpoint.at("[::ffff:10.0.0.1]", 40001)
        Endpoint(host='10.0.0.1', port=40001)

        Raises Refused for hosts that no rank can have (see `canonical_host`) and for ports outside 1–65535.
        """
        if isinstance(port, bool) or not 1 <= port <= MAX_PORT:
            raise Refused(f"port {port} is outside 1 to {MAX_PORT}", code="bad_port")
        return cls(canonical_host(host), port)

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """From `host:port`; an IPv6 address stands in brackets, as in the session of a transfer engine.

        >>> Endpoint.parse("[FD00::1]:8998"), str(Endpoint.parse("node-7:80"))
        (Endpoint(host='fd00::1', port=8998), 'node-7:80')
        """
        host, colon, port = text.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5:
            raise Refused(f"{text[:80]!r} is not host:port with a number as its port", code="malformed")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise Refused(f"{text[:80]!r}: an IPv6 address needs brackets before its port", code="malformed")
        return cls.at(host, int(port))

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def tcp(self) -> str:
        """As ZeroMQ wants it: `tcp://10.0.0.1:40001`, `tcp://[fd00::1]:40001`."""
        return f"tcp://{self}"

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"
