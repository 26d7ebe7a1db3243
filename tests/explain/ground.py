"""The ground for planted faults: a whole control plane, ranks and engines beside it, and people who ask why."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from controlplane.probes.zmtp import GREETING
from tests.cases.ranks import Ranks, here
from tests.controlplane.routers.real import RealRouter
from tests.doubles.engine import Engine
from tests.supervisor.conftest import Up
from tests.support.operator import Operator, make_token
from tests.support.ports import free_port
from tests.wire.client import Client as WireClient
from workers.sdk import Client, ControlPlane

WITHIN = 90.0
"""Everything here is seen within seconds; the rest is for a machine that has other work to do."""


class Ground:
    """`up` runs all of our processes; everything planted here ends with `stack`."""

    def __init__(self, up: Up, stack: ExitStack) -> None:
        self.up, self.stack = up, stack
        self.kv_port = up.ports["PDCP_KV_PORT"]
        self.token = make_token(up.env, "who asks", "read", "report", "operate")
        self.people = Operator(up.web, self.token, "")
        self.ranks = Ranks()
        stack.callback(self.ranks.close)

    def wire(self, name: str) -> WireClient:
        return WireClient(self.kv_port, headers={"X-PD-Instance": name})

    def add(self, name: str, role: str = "prefill", **values: Any) -> None:
        self.people.ask("POST", "instances", status=201, json={"name": name, "role": role, **values})

    def rank(self, name: str, *, port: int | None = None, ip: str = "127.0.0.1") -> int:
        """A rank that greets, and registers as the only one of its instance; its port."""
        port = port or self.ranks.open()
        answer = self.wire(name).put(**here(rank_port=port, rank_ip=ip))
        assert answer.status == 200, answer
        return port

    def engine(self, name: str, role: str = "prefill", *, bootstrap_port: int = 8998, **values: Any) -> Engine:
        """A serving instance with an engine behind it, which says that its own bootstrap server is at this port."""
        engine = self.stack.enter_context(Engine(role, bootstrap_port=bootstrap_port))
        own = {"own_port": free_port()} if role == "prefill" else {}
        self.add(name, role, engine_url=engine.url, **own, **values)
        if role == "prefill":
            self.rank(name)
        return engine

    def route(self, router: RealRouter, name: str, *instances: str) -> None:
        said = {"name": name, "url": router.url, "metrics_url": router.metrics_url, "instances": list(instances)}
        self.people.ask("POST", "routers", status=201, json=said)

    def worker(self) -> Client:
        """A worker's SDK."""
        return Client(ControlPlane.at(f"127.0.0.1:{self.kv_port}", api=self.up.web, token=self.token))

    def why(self, name: str) -> dict[str, Any]:
        return self.people.get(f"explain/instance/{name}")

    def until(self, name: str, code: str) -> dict[str, Any]:
        """The explanation, once it comes to this and nothing else."""
        return self._until(lambda: self.why(name), lambda said: said["conclusion"]["code"] == code and alone(said))

    def until_room(self, room: int, *cause: str) -> dict[str, Any]:
        def so(said: dict[str, Any]) -> bool:
            return causes(said) == [cause]

        return self._until(lambda: self.people.get(f"explain/room/{room}"), so)

    def _until(self, ask: Any, true: Any) -> dict[str, Any]:
        end = time.monotonic() + WITHIN
        while not true(said := ask()):
            told = {
                answer["key"]: (answer["verdict"], answer["code"], answer["sentence"]) for answer in said["answers"]
            }
            assert time.monotonic() < end, told
            time.sleep(0.2)
        return said


def causes(said: dict[str, Any]) -> list[tuple[str, str]]:
    """Every no that does not follow from another, by question and word."""
    return [
        (answer["key"], answer["code"])
        for answer in said["answers"]
        if answer["verdict"] == "no" and not answer["follows"]
    ]


def alone(said: dict[str, Any]) -> bool:
    return len(causes(said)) <= 1 and not said["conclusion"]["also"]


class Reachable:
    """A rank on a host of its own (127.0.0.x) that greets until `cut`: then its host takes no connection any more."""

    def __init__(self, ip: str) -> None:
        self.ip = ip
        self._open, self._listener, self._waiting = True, socket.socket(), list[socket.socket]()
        self._listener.bind((ip, 0))
        self._listener.listen(0)
        self._listener.settimeout(0.1)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._greet, daemon=True)
        self._thread.start()

    def _greet(self) -> None:
        while self._open:
            try:
                peer = self._listener.accept()[0]
            except TimeoutError:
                continue
            with peer:
                peer.sendall(GREETING)

    def cut(self) -> None:
        self._open = False
        self._thread.join()
        for _ in range(4):
            waiting = socket.socket()
            self._waiting.append(waiting)
            waiting.setblocking(False)
            waiting.connect_ex((self.ip, self.port))

    def close(self) -> None:
        self._open = False
        self._thread.join()
        for one in (*self._waiting, self._listener):
            one.close()


@contextmanager
def somebody_elses_port() -> Iterator[int]:
    """A port that a program holds which is no bootstrap server."""
    with Engine("decode") as program:
        yield program.port
