"""`manage.py web` under test: on a port that stays the same over restarts."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.ports import free_port
from tests.support.processes import Child


class Web:
    """`knobs` are environment variables."""

    def __init__(self, env: Mapping[str, str], *, log: Path, port: int | None = None, **knobs: object) -> None:
        self.port = port or free_port()
        self.env = {
            **env,
            "PDCP_ENV_FILE": "/dev/null",
            "PDCP_WEB_HOST": "127.0.0.1",
            "PDCP_WEB_PORT": str(self.port),
            **{name: str(value) for name, value in knobs.items()},
        }
        self.log_path = log
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/fleet"

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def child(self) -> Child:
        assert self._child is not None, "not started yet"
        return self._child

    def start(self, *, within: float = 60) -> "Web":
        self._child = Child([sys.executable, "manage.py", "web"], env=self.env, log=self.log_path)
        self._child.wait_for_line("^web ready ", timeout=within)
        return self

    def kill9(self) -> None:
        if self._child is not None:
            self._child.kill9()

    def terminate(self) -> int:
        return self.child.terminate()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
