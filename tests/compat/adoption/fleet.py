"""What every cell of the adoption matrix is made of: engines of the real SGLang, a control plane, a router or a gateway."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from controlplane.domain.claims import PASSED, RUNGS
from tests.controlplane.routers.real import RealRouter
from tests.doubles.gateway import Gateway
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env
from tests.workers.sdk.plane import RealPlane

GENEROUS_SECONDS = 60.0
READY = r"^engines ready in (\S+) s, own server (True|False)$"


class Engines:
    """A prefill and a decode (`tests.compat.adoption.engine`); its ports stay the same over restarts.

    `env` is what the plugin is told (`PD_…`); nothing: SGLang as it comes. `kv_port` is its bootstrap port.
    """

    def __init__(self, log: Path, *, kv_port: int | None = None, **env: object) -> None:
        self.kv_port, self.prefill_port, self.decode_port = kv_port or free_port(), free_port(), free_port()
        self.env, self.log_path = env, log
        self._child: Child | None = None

    @property
    def prefill_url(self) -> str:
        return f"http://127.0.0.1:{self.prefill_port}"

    @property
    def decode_url(self) -> str:
        return f"http://127.0.0.1:{self.decode_port}"

    def launch(self) -> Engines:
        """Start it and return at once. From the main thread: it dies with the one that started it."""
        ports = {"kv": self.kv_port, "prefill": self.prefill_port, "decode": self.decode_port}
        command = [sys.executable, "-m", "tests.compat.adoption.engine", json.dumps(ports)]
        env = clean_env(OMP_NUM_THREADS=1, SGLANG_HOST_IP="127.0.0.1", NO_PROXY="*", SGLANG_PLUGINS=None, **self.env)
        self._child = Child(command, env=env, log=self.log_path)
        return self

    def ready(self) -> Engines:
        """Until both fronts serve; `started_in`: seconds to start SGLang's parts, `own_server`: whether it runs one."""
        assert self._child is not None
        said = self._child.wait_for_line(READY, timeout=110)
        self.started_in, self.own_server = float(said[1]), said[2] == "True"
        return self

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill9()
            self._child = None

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


class Traffic:
    """Requests through whoever chooses workers; `ask` sends one and gives its room."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(timeout=60, trust_env=False)

    def ask(self) -> int:
        body = {"text": "hello", "sampling_params": {"max_new_tokens": 1}}
        answer = self._http.post(f"{self.url}/generate", json=body)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text[:500]}"
        said = answer.json()
        assert said["output_ids"] == [42], said
        return int(said["room"])

    def close(self) -> None:
        self._http.close()


class Operator:
    """What somebody with a token that may read and operate sees and does."""

    def __init__(self, plane: RealPlane, token: str) -> None:
        self._plane = plane
        self._http = httpx.Client(timeout=30, trust_env=False, headers={"authorization": f"Bearer {token}"})

    def get(self, path: str) -> Any:
        answer = self._http.get(f"{self._plane.web.url}/api/v1/{path}")
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def add(self, name: str, **facts: Any) -> None:
        body = {"name": name, "reason": "because a test asks", **facts}
        answer = self._http.post(f"{self._plane.web.url}/api/v1/instances", json=body)
        assert answer.status_code == 201, answer.text

    def complete(self, name: str) -> Any:
        """The instance, once all of its ranks are there."""
        return eventually(lambda: self._instance(name, "complete"))

    def _instance(self, name: str, true: str) -> Any:
        answer = self._http.get(f"{self._plane.web.url}/api/v1/instances/{name}")
        return answer.json() if answer.status_code == 200 and answer.json()[true] else None

    def way(self, room: int, *, proven: set[str]) -> dict[str, str]:
        """The standing of each rung of a room, once those in `proven` are."""

        def rungs() -> dict[str, str] | None:
            told = {rung["name"]: rung["standing"] for rung in self.get(f"explain/room/{room}")["rungs"]}
            return told if proven <= {name for name, standing in told.items() if standing == PASSED} else None

        return eventually(rungs)

    def close(self) -> None:
        self._http.close()


ALL = set(RUNGS)


def eventually(true: Callable[[], Any], *, within: float = GENEROUS_SECONDS) -> Any:
    end = time.monotonic() + within
    while not (said := true()):
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.05)
    return said


@contextmanager
def gateway_for(plane: RealPlane, name: str, prefill: str, decode: str) -> Iterator[Gateway]:
    """Our gateway's double, allowed to choose this pair alone."""
    gateway = Gateway(name, plane.web.url, plane.token(name, "read", "gateway"), only={prefill, decode})
    gateway.start()
    try:
        eventually(gateway.choices)
        yield gateway
    finally:
        gateway.stop()


@contextmanager
def routed(router: RealRouter, *engines: Engines) -> Iterator[Traffic]:
    """The real router, told of these engines as somebody who starts it by hand would."""
    router.empty()
    for one in engines:
        router.post(url=one.prefill_url, worker_type="prefill", bootstrap_port=one.kv_port)
        router.post(url=one.decode_url, worker_type="decode")
    eventually(lambda: len(router.urls()) == 2 * len(engines))
    traffic = Traffic(router.url)
    try:
        yield traffic
    finally:
        traffic.close()
        router.empty()
