"""Ports that a test may listen on, and find free again after a restart."""

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given_out: set[int] = set()
# Test processes that run side by side have a share each: a port is free until it is bound, and that is later.
_SHARES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_OWN_SHARE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on, never the same one twice in a test run.

    It lies below the range from which the kernel takes ports for outgoing connections: those of a load test
    would otherwise steal it between a kill and the restart that wants it back.
    """
    top = int(_EPHEMERAL_RANGE.read_text().split()[0]) if _EPHEMERAL_RANGE.exists() else 32768
    while True:
        port = random.randrange(15000, max(top, 20000))
        if port % _SHARES == _OWN_SHARE and port not in _given_out and _can_bind(host, port):
            _given_out.add(port)
            return port


def is_open(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def _can_bind(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


@contextmanager
def held_port(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that refuses, and that nobody else gets, while servers that set SO_REUSEADDR (ZeroMQ's do) come and go on it."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as holder:
        # Bound, and never listening.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 0))
        yield holder.getsockname()[1]
