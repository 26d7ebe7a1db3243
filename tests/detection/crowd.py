"""Ten thousand ranks on one host: ZeroMQ PULL sockets on all addresses of loopback, in a process of their own.

`python -m tests.detection.crowd PORT…` is that process. A rank is an address and a port; 127.0.0.0/8 has enough of them.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import zmq

from tests.crash.wire import Client, route_body
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env

HOSTS_A_PORT = 250
RANKS_AN_INSTANCE = 1000
SHAPE = (125, 8)
CONNECTIONS = 16

Address = tuple[str, int]


class Crowd:
    """`count` ranks that greet; register them with `register`."""

    def __init__(self, count: int, log: Path) -> None:
        self.ports = [free_port("0.0.0.0") for _ in range(-(-count // HOSTS_A_PORT))]
        self.count = count
        command = [sys.executable, "-m", "tests.detection.crowd", *map(str, self.ports)]
        self._child = Child(command, env=clean_env(), log=log)
        self._child.wait_for_line("^up$", timeout=60)

    def addresses(self) -> Iterator[Address]:
        for number in range(self.count):
            host = number % HOSTS_A_PORT
            yield f"127.1.{1 + host // 250}.{1 + host % 250}", self.ports[number // HOSTS_A_PORT]

    def bodies(self) -> Iterator[tuple[str, dict[str, object]]]:
        """`PUT /route` of each, with its instance: 1,000 ranks each, the last one may be smaller."""
        for number, (ip, port) in enumerate(self.addresses()):
            instance, rank = divmod(number, RANKS_AN_INSTANCE)
            left = min(RANKS_AN_INSTANCE, self.count - instance * RANKS_AN_INSTANCE)
            dp, tp = SHAPE if left == RANKS_AN_INSTANCE else (left, 1)
            yield f"crowd-{instance}", route_body(dp=dp, tp=tp, at=(rank // tp, rank % tp), ip=ip, port=port)

    async def register(self, kv_port: int) -> None:
        """All of them, over a few connections."""
        bodies = list(self.bodies())

        async def some(part: int) -> None:
            async with Client(kv_port, timeout=60) as client:
                for instance, body in bodies[part::CONNECTIONS]:
                    answer = await client.ask("PUT", "/route", body, instance=instance)
                    assert answer.status == 200, answer

        await asyncio.gather(*(some(part) for part in range(CONNECTIONS)))

    def close(self) -> None:
        self._child.kill9()


def main() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    listeners = []
    for port in map(int, sys.argv[1:]):
        listener = context.socket(zmq.PULL)
        listeners.append(listener)
        # It stands for 250 processes, each of which would have a queue of its own.
        listener.setsockopt(zmq.BACKLOG, 4096)
        listener.bind(f"tcp://0.0.0.0:{port}")
    print("up", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
