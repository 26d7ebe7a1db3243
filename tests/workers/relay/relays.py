"""A relay as a process of its own, `python -m workers.agent relay`, as systemd runs it: killed, and started again on its data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.processes import Child, clean_env
from tests.wire.client import Client

GENEROUS = 30.0


class Relay:
    """`control_plane` is HOST:PORT of a KV bootstrap server. The port stays the same over restarts."""

    def __init__(
        self, directory: Path, control_plane: str, instance: str, *words: str, port: int | None = None
    ) -> None:
        self.directory, self.instance = directory, instance
        self.port = port or free_port()
        self.data = directory / f"relay-{instance}"
        self.words = (
            *("--kv", control_plane, "--instance", instance, "--data", str(self.data)),
            *("--port", str(self.port), "--listen", "127.0.0.1", "--lease", "3", *words),
        )
        self.log = directory / f"relay-{instance}.log"
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        assert self._child is not None, "not started yet"
        return self._child

    @property
    def started(self) -> bool:
        return self._child is not None and self._child.exit_code is None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Relay:
        command = [sys.executable, "-m", "workers.agent", "relay", *self.words]
        self._child = Child(command, env=clean_env(), log=self.log)
        self._child.wait_for_line(r"^relay ready ", timeout=GENEROUS)
        return self

    def kill9(self) -> None:
        if self._child is not None:
            self._child.kill9()

    def restart(self) -> Relay:
        self.kill9()
        return self.start()

    def terminate(self) -> int:
        return self.child.terminate()

    def client(self, **more: Any) -> Client:
        return Client(self.port, **more)

    def status(self) -> dict[str, Any]:
        said: dict[str, Any] = self.client()("GET", "/pd/v1/relay").json()
        return said

    def until(self, true: Callable[[dict[str, Any]], Any], *, within: float = GENEROUS) -> dict[str, Any]:
        """Its status once it is as wanted."""
        end = time.monotonic() + within
        while not true(status := self.status()):
            assert time.monotonic() < end, f"still {status}\n{self.text()[-4000:]}"
            time.sleep(0.05)
        return status

    def until_together(self) -> dict[str, Any]:
        """The control plane is there, and has all that was acknowledged here."""
        return self.until(is_together)

    def until_away(self) -> dict[str, Any]:
        return self.until(lambda status: status["control_plane"]["state"] == "away")

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def is_together(status: dict[str, Any]) -> bool:
    plane = status["control_plane"]
    return plane["state"] == "together" and not any(plane["to_be_told"].values())
