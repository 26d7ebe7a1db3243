"""Ranks that listen and greet as SGLang's do, and what operators see of them."""

import json
import time
from collections.abc import Callable
from typing import Any

import zmq

from tests.support.plugin import Backend
from tests.support.ports import free_port, is_open
from tests.support.processes import manage
from tests.wire.client import Client


class Ranks:
    """ZeroMQ PULL sockets on this host."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 4096)
        self._sockets: dict[int, zmq.Socket[bytes]] = {}

    def open(self, port: int | None = None) -> int:
        listener = self._context.socket(zmq.PULL)
        # Below the range of outgoing connections: what died must not be answered for by somebody else.
        port = port or free_port()
        listener.bind(f"tcp://127.0.0.1:{port}")
        self._sockets[port] = listener
        return port

    def die(self, *ports: int) -> None:
        """From now on these refuse connections."""
        for port in ports:
            self._sockets.pop(port).close(linger=0)
        # ZeroMQ closes behind our back.
        for port in ports:
            eventually(lambda port=port: not is_open(port))

    def close(self) -> None:
        self._context.destroy(linger=0)


def here(**facts: Any) -> dict[str, Any]:
    """A rank on this host."""
    return {"rank_ip": "127.0.0.1", **facts}


def eventually(condition: Callable[[], Any], *, within: float = 10.0) -> Any:
    """The first true value, or a failure after `within` seconds.

    Less than the 12 s after which a flush ends whoever was told: what only that would mend is not mended in time.
    """
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"it did not come true within {within} s"
        time.sleep(0.03)
    return value


def complete(client: Client, *, within: float = 10.0) -> None:
    """Until the topology is answered."""
    eventually(lambda: client.topology().status == 200, within=within)


def fleet(backend: Backend, name: str | None = None) -> Any:
    """What `manage.py fleet` shows an operator: one instance, or all."""
    shown = manage("fleet", *([name] if name else []), "--json", env=backend.env)
    assert shown.stdout, shown.stderr
    document = json.loads(shown.stdout)
    return document["instance"] if name else document["instances"]
